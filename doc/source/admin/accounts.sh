# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
#
# The accounts at RabbitMQ. Each may declare (configure), publish to (write) and take from (read)
# the exchanges and queues that it uses, and no others.
permit() {
    rabbitmqctl set_permissions "$1" "^($2)$" "^($2|amq\.default)$" "^($2)$"
}

# Schedulers. With notifications add |notifications(\..+)?|versioned_notifications(\..+)?
rabbitmqctl add_user berthmaster_scheduler SCHEDULER_RABBIT_PASS
permit berthmaster_scheduler 'nova|reply_.+|(berthmaster-)?scheduler(\..+|_fanout(_.+)?)?'

# Agents. They cannot take the requests of schedulers.
rabbitmqctl add_user berthmaster_agent AGENT_RABBIT_PASS
permit berthmaster_agent \
    'nova|compute(\.berthmaster-agent\..+|_fanout(_.+)?)?|berthmaster-scheduler_fanout'

# Callers: conductors of your own, and the command.
rabbitmqctl add_user berthmaster RABBIT_PASS
permit berthmaster 'nova|reply_.+'
