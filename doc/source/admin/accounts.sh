# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
#
# The accounts at RabbitMQ. Each may declare (configure), publish to (write) and take from (read)
# the exchanges and queues that it uses, and no others. The script may be run again, also with other
# passwords. They go through standard input: everybody on a machine can read its command lines.
# It stops at the first account that cannot be made.
set -eu

account() {
    if rabbitmqctl -q list_users </dev/null | cut -f1 | grep -qx "$1"; then
        printf '%s\n' "$2" | rabbitmqctl -q authenticate_user "$1" >/dev/null 2>&1 ||
            printf '%s\n' "$2" | rabbitmqctl -q change_password "$1"
    else
        printf '%s\n' "$2" | rabbitmqctl -q add_user "$1" >/dev/null
    fi
    rabbitmqctl -q set_permissions "$1" "^($3)$" "^($3|amq\.default)$" "^($3)$" </dev/null
}

# Schedulers. With notifications add |notifications(\..+)?|versioned_notifications(\..+)?
account berthmaster_scheduler 'SCHEDULER_RABBIT_PASS' \
    'nova|reply_.+|(berthmaster-)?scheduler(\..+|_fanout(_.+)?)?'

# Agents. They cannot take the requests of schedulers.
account berthmaster_agent 'AGENT_RABBIT_PASS' \
    'nova|compute(\.berthmaster-agent\..+|_fanout(_.+)?)?|berthmaster-scheduler_fanout'

# Callers: conductors of your own, and the command.
account berthmaster 'RABBIT_PASS' 'nova|reply_.+'
