#!/bin/bash
# make.sh N PROGRAMS DIR: runs a small unit in DIR, a new directory with a short path, with the programs of journal
# format N (tandem, tandem-controller, tandem-node in PROGRAMS). DIR/journal.db is its journal, DIR/views what the same
# program shows of it without any node. Ports 21000 + 10 N and the next two on loopback must be free.
set -eu
N=$1; B=$2; D=$3; mkdir $D $D/c $D/n1 $D/n2 $D/n3
P=$((21000+N*10)); S=$D/c.sock; T="$B/tandem --socket $S"
cd $D
flags="--unit line4 --state-dir $D/c --socket $S --listen 127.0.0.1:$P"
[ $N -ge 2 ] && flags="$flags --listen-tls 127.0.0.1:$((P+1)) --advertise 127.0.0.1"
$B/tandem-controller $flags >c.log 2>&1 & C=$!
for i in $(seq 50); do [ -S $S ] && curl -sf --unix-socket $S http://x/readyz >/dev/null && break; sleep 0.2; done
node() { $B/tandem-node --unit line4 --type $2 --node $1 --state-dir $D/$1 --broker tcp://127.0.0.1:$P --beat 5s --attribute place=hall >$1.log 2>&1 & }
node n1 press; A1=$!; node n2 camera; A2=$!
sleep 2
doc() { cat <<J
{"formatVersion":"7","version":"$1","nodes":[
 {"nodeGroupSubject":{"codename":"press"},"priority":$2,"alertRules":{"cpu":{"minTimeout":"PT1M","minThreshold":0.1,"maxThreshold":0.9}}},
 {"nodeGroupSubject":{"codename":"camera"},"priority":$2},
 {"node":{"codename":"n2"},"nodeGroupSubject":{"codename":"camera"},"priority":$3}]}
J
}
doc 1.0.0 2 4 >1.json; doc 1.1.0 3 5 >2.json; doc 2.0.0 7 8 > 3.json; doc 0.9.0 1 1 >old.json
$T config apply 1.json --wait
$T config apply old.json || true
$T config apply 2.json --wait
A3=
if [ $N -ge 2 ]; then
  $T --json node enroll n3 > enroll.json; cat enroll.json
  tok=$(python3 -c "import json;d=json.load(open('enroll.json'));print(d['token'])")
  $B/tandem-node join --controller https://127.0.0.1:$((P+2)) --token $tok --state-dir $D/n3
  $B/tandem-node --type press --state-dir $D/n3 --beat 5s >n3.log 2>&1 & A3=$!
  $T node enroll n4 >/dev/null
  sleep 2
fi
[ $N -ge 3 ] && $T key rotate
if [ $N -ge 4 ]; then
  $T health set --all --reset 7d --fallback 5m
  $T health set --node n1 --reboot no --check cpu=0.95:5m
  $T health set --type camera --deadline 2h
  sleep 1
fi
if [ $N -ge 5 ]; then
  inst() { echo "{\"@class\":\"Instance\",\"configurationId\":\"$1\",\"slot\":\"$2\",\"resources\":{\"iss_hook_start\":{\"@class\":\"Resource\",\"uuid\":\"$1\",\"urls\":[\"http://127.0.0.1:9/x\"],\"size\":0,\"verification\":{\"checksum\":\"EMPTY:\",\"checkPeriod\":\"0d0h0m\"}}}}"; }
  echo "[$(inst web-1 web@n1),$(inst db-1 db@n1),$(inst web-2 web@n3),$(inst far-1 far@n9)]" > w.json
  $T workload apply w.json || true
  sleep 3
fi
$T config apply 3.json --try 20h --wait
sleep 2
kill -TERM $A1 $A2 $A3; wait $A1 $A2 $A3 || true
sleep 1
kill -TERM $C; wait $C || true
cp c/journal.db journal.db
cp c/unit-config.json .
# the views, by the same program, without any node
rm -rf v; cp -a c v; 
flags=${flags//$D\/c /$D/v }; flags=${flags//$S/$D/v.sock}
$B/tandem-controller $flags >v.log 2>&1 & C=$!
for i in $(seq 50); do [ -S $D/v.sock ] && curl -sf --unix-socket $D/v.sock http://x/readyz >/dev/null && break; sleep 0.2; done
mkdir -p views
get() { curl -s --unix-socket $D/v.sock http://x/v1/$1 > views/$2.json; }
get config/status config-status; get config/history config-history; get nodes nodes; get nodes/n1 node-n1; get nodes/n2 node-n2
[ $N -ge 4 ] && { get health/settings health-settings; get nodes/n1/health node-health-n1; }
[ $N -ge 5 ] && { get workloads/status workloads-status; get workloads/slots workloads-slots; get workloads/history workloads-history; }
kill -TERM $C; wait $C || true
