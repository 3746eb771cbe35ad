#!/bin/sh
# Puts a delay on what a region's NATS sends to the gateways of other regions, and on nothing else.
#   netem.sh 60ms
set -eu
apk add --no-cache iproute2-tc >/dev/null
tc qdisc replace dev eth0 root handle 1: prio
tc qdisc replace dev eth0 parent 1:3 handle 30: netem delay "$1"
for field in dport sport; do
  tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip "$field" 7222 0xffff flowid 1:3
done
exec sleep infinity
