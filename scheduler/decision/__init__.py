# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How a decision is made: pure functions over a table of hosts, in this order.

    pipeline.decide        for each instance of a request:
      prefilter              hosts by name: destination, cell, aggregates, ignored, forced
      filter_hosts           the filters, one after the other over the remaining hosts
      weighing               the weighers: normalize, multiply, add up
      picker                 the best host, or one drawn from the best
      HostState.consume_from_request   the chosen host has less for the next instance
      further_instances      from the second instance on only the chosen host is asked again
      alternates             hosts where a failed build may be tried again

plugin_calls calls filters and weighers, types has the values of a decision.
"""
