#!/bin/sh
# Certificates to try TLS with: an authority of its own, and for every name a certificate that serves and asks.
# For production, take those of your own authority; what the services need is the same files.
#
#   deploy/tls/make-certificates.sh FOLDER NAME...      (DAYS=30: how long they are good, 825 unless told)
#   deploy/tls/make-certificates.sh certs us-east-1-redis us-east-1-nats us-east-1-sync
set -eu
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1; shift
umask 077
mkdir -p "$folder"
cd "$folder"
days=${DAYS:-825}
if [ ! -e ca.key ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days $days \
    -subj '/CN=quotaplane test authority' -keyout ca.key -out ca.crt 2>/dev/null
fi
for name in "$@"; do
  [ ! -e "$name.key" ] || { echo "$folder/$name.key is there already; left as it is" >&2; continue; }
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -subj "/CN=$name" -keyout "$name.key" -out "$name.csr" 2>/dev/null
  printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' "$name" >"$name.ext"
  openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days $days \
    -extfile "$name.ext" -out "$name.crt" 2>/dev/null
  rm "$name.csr" "$name.ext"
done
