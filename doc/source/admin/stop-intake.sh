# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
#
# Let the nova-scheduler of a controller take no more requests from RabbitMQ, so that it can be
# stopped when it has answered those that it has: sh stop-intake.sh VHOST ACCOUNT ADDRESS
# ADDRESS is that of the controller as RabbitMQ sees it. Connections that only send stay open.
set -eu
rabbitmqctl -q set_permissions -p "$1" "$2" '.*' '.*' '^(?!scheduler($|\.)).*'
channels=$(rabbitmqctl -q list_consumers -p "$1" queue_name channel_pid |
    awk '$1 == "scheduler" { print $2 }')
readers=$(rabbitmqctl -q list_channels pid connection | grep -F "$channels" | awk '{ print $2 }')
rabbitmqctl -q list_connections pid user peer_host | grep -F "$readers" |
    awk -v account="$2" -v address="$3" '$2 == account && $3 == address { print $1 }' |
    while read -r connection; do
        rabbitmqctl -q close_connection "$connection" 'nova-scheduler takes no more requests'
    done
