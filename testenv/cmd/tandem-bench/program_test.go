package main

import (
	"bufio"
	"bytes"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"etcd Version: 3.7.3\nGit SHA: Not provided\nGo Version: go1.26.8\n": "3.7.3",
		"nats-server: v2.15.2\n":                                   "2.15.2",
		"mosquitto version 2.0.11\n\nmosquitto is an MQTT v5.0/v3": "2.0.11",
		"etcd Version: 3.8.0-alpha.0\n":                            "3.8.0-alpha.0",
		"MQTT v5.0":                                                "",
	} {
		if got := versionIn(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
	if v, err := dependency(etcdClient); err != nil || versionIn(v) == "" {
		t.Errorf("etcd's client: %q, %v", v, err)
	}
	if _, err := dependency("no.such/module"); err == nil {
		t.Error("a module that is not here has a version")
	}
}

func TestProcField(t *testing.T) {
	const text = "VmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n"
	for field, want := range map[string]uint64{"VmRSS": 1024, "VmHWM": 2048, "voluntary_ctxt_switches": 7} {
		if n, err := procField(text, field); err != nil || n != want {
			t.Errorf("%s: %d, %v", field, n, err)
		}
	}
	if _, err := procField(text, "VmSize"); err == nil {
		t.Error("a field that is not there is read")
	}
}

func TestNATSProtocol(t *testing.T) {
	for line, want := range map[string][2]int{
		"MSG desired.node-00001 1 1024\r\n": {1, 1024}, "MSG inbox.node-00001 2 reply.to 40\r\n": {2, 40},
	} {
		if sid, size, err := natsMessage([]byte(line)); err != nil || sid != want[0] || size != want[1] {
			t.Errorf("%q: %d, %d, %v", line, sid, size, err)
		}
	}
	for _, line := range []string{"MSG a 1\r\n", "MSG a b 2\r\n", "MSG a 0 2\r\n", "MSG a 1 -2\r\n",
		"MSG a 1 9999999\r\n"} {
		if _, _, err := natsMessage([]byte(line)); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
	ours, theirs := net.Pipe()
	answered := make(chan string, 1)
	go func() {
		defer theirs.Close()
		in := append([]byte("INFO {}\r\nPING\r\nMSG desired.a 1 5\r\n"), "a\r\nbc\r\nPONG\r\n"...)
		_, _ = theirs.Write(in[:15]) // the reader compares what came of it
		line, _ := bufio.NewReader(theirs).ReadString('\n')
		answered <- line
		_, _ = theirs.Write(in[15:])
		_, _ = theirs.Write([]byte("-ERR 'no'\r\n"))
	}()
	defer ours.Close()
	c := &natsConn{Conn: ours, r: bufio.NewReader(ours)}
	var payload []byte
	if sid, err := c.next(&payload); err != nil || sid != 1 || !bytes.Equal(payload, []byte("a\r\nbc")) {
		t.Fatalf("%d, %v, %q", sid, err, payload)
	}
	if line := <-answered; line != "PONG\r\n" {
		t.Errorf("PING is answered with %q", line)
	}
	if sid, err := c.next(&payload); err != nil || sid != 0 {
		t.Errorf("PONG: %d, %v", sid, err)
	}
	if _, err := c.next(&payload); err == nil {
		t.Error("an error is taken")
	}
	if got := natsPut(nil, "desired.a", "", []byte("xy")); !slices.Equal(got, []byte("PUB desired.a 2\r\nxy\r\n")) {
		t.Errorf("%q", got)
	}
}

func TestBenchmarks(t *testing.T) {
	const out = `goos: linux
BenchmarkAppend/batch=64-2    610  981234 ns/op  41000 records/s  12 B/op
BenchmarkAppend/batch=512-2   410  1281234 ns/op  61000 records/s  12 B/op
BenchmarkFloor/callers=64-2   610  12000 ns/op  5032 records/s
PASS
`
	all, err := benchmarks(out)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	if f := all[0]; f.Value != 41_000 || f.Met != nil || f.Name != "the journal by itself, 64 records in a commit" {
		t.Errorf("%+v", f)
	}
	if f := all[1]; f.Met == nil || !*f.Met {
		t.Errorf("%+v", f)
	}
	if f := all[2]; f.Value != 5032 || f.Met != nil {
		t.Errorf("%+v", f)
	}
	_, without, _ := strings.Cut(out, "BenchmarkFloor")
	if _, err := benchmarks(without); err == nil {
		t.Error("a benchmark that has gone is not missed")
	}
}
