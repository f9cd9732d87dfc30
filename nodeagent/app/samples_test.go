package app

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/nodeagent/internal/monitor"
	"tandem.internal/shared/alert"
	"tandem.internal/shared/wire"
)

// The newest samples are kept, and told with the times that the node's clock of now gives them.
func TestRecentSamples(t *testing.T) {
	var r recent
	for n := range 400 {
		s := monitor.Sample{}
		s.Mono = time.Duration(n) * 10 * time.Second
		s.Readings = []alert.Reading{{Parameter: alert.CPU, Value: float64(n) / 1000},
			{Parameter: alert.RAM, Value: 0.5}}
		if n == 399 {
			s.Readings[1].Err = errors.New("unknown")
		}
		r.take(s)
	}
	now := time.UnixMilli(1_795_000_000_000)
	s := r.show(10*time.Second, now, 4000*time.Second)
	text := string(wire.Encode(s))
	got, err := wire.Decode[wire.Samples]([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.At) != maxSamples || got.Period != "PT10S" || strings.Join(got.Parameters, " ") != "cpu ram" ||
		got.At[359] != now.Add(-10*time.Second).UnixMilli() || got.At[358] != got.At[359]-10_000 ||
		got.Values[0][0] != 0.04 || got.Values[0][359] != 0.399 || !math.IsNaN(float64(got.Values[1][359])) ||
		!strings.HasSuffix(text, ",0.5,null]]}") {
		t.Errorf("%s", text)
	}
}

// A node with as many partitions as there may be answers within the limit of a message.
func TestManySamplesFit(t *testing.T) {
	var r recent
	s := monitor.Sample{}
	for n := range 256 {
		name := fmt.Sprintf("%s%03d", strings.Repeat("n", 60), n)
		s.Readings = append(s.Readings, alert.Reading{Parameter: alert.Partition(name), Value: 0.123456},
			alert.Reading{Parameter: alert.Inodes(name), Value: 0.000123456})
	}
	for range maxSamples {
		r.take(s)
	}
	if size := len(wire.Encode(r.show(time.Second, time.Now(), 0))); size > wire.MaxPayload*3/4 || len(r.kept) != 16 {
		t.Errorf("%d samples with %d bytes", len(r.kept), size)
	}
}

func TestSamplesAreShown(t *testing.T) {
	bubble(t, func(r *rig) {
		r.cfg.SamplePeriod, r.cfg.Partitions = 10*time.Second, map[string]string{"state": "/"}
		r.start()
		ask := func() *wire.Samples {
			t.Helper()
			reply := r.request(wire.MethodSamples, nil)
			if reply.Error != nil {
				t.Fatal(reply.Error)
			}
			return decode[wire.Samples](r, reply.Result)
		}
		if s := ask(); len(s.At) != 0 {
			t.Errorf("before the first period: %+v", s)
		}
		begun := time.Now()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		s := ask()
		if len(s.At) < 2 || strings.Join(s.Parameters, " ") !=
			"cpu ram download upload partition:state inodes:state" || s.Values[1][0] != 0.25 || s.Values[4][1] != 0.5 {
			t.Errorf("%+v", s)
		}
		for i, at := range s.At {
			if took := time.UnixMilli(at).Sub(begun); took < 0 || took > 30*time.Second ||
				i > 0 && at-s.At[i-1] != 10_000 {
				t.Errorf("sample %d is of %s after the start", i, took)
			}
		}
	})
}
