package distribute

import (
	"testing"
	"testing/synctest"
	"time"

	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/record"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/topic"
	"tandem.internal/shared/wire"
)

// What a node reports of its health is shown, and bounded like all its reports.
func TestHealthIsReported(t *testing.T) {
	withFaults(t, nil, func(t *testing.T, r *faulty) {
		r.join("n")
		to := topic.ForNode(faultyUnit, "n").Reported(wire.KindHealth)
		report := func(seq uint64, detail []byte) []byte {
			return wire.Encode(&wire.Reported{V: wire.Version, Node: "n", Kind: wire.KindHealth, Boot: "b", Seq: seq,
				Detail: detail})
		}
		health := &wire.Health{Indicator: wire.IndicatorContact, Text: "x", Contact: wire.HealthContact{In: true},
			Boot:     wire.HealthBoot{Reason: wire.BootStop, At: time.Now().UTC()},
			Settings: wire.HealthSettings{FormatVersion: "1"}}
		r.mustBe("a report", r.hear(to, report(1, wire.Encode(health))), "")
		v, err := r.core.NodeHealth(t.Context(), op.NodeIn{Node: "n"})
		if err != nil || v.Health.State != view.HealthOK || v.Report == nil || v.Report.Boot.Reason != wire.BootStop ||
			v.Health.ReportedAt.IsZero() {
			t.Errorf("%+v %v", v, err)
		}
		r.mustBe("garbage", r.hear(to, report(2, []byte(`{"indicator":4}`))), "")
		synctest.Wait()
		if got := r.records(record.Trouble); len(got) != 1 {
			t.Errorf("%d troubles", len(got))
		}
		_, err = r.core.NodeHealth(t.Context(), op.NodeIn{Node: "m"})
		r.mustBe("nobody", err, wire.CodeNotFound)
		before := len(r.records(record.Report))
		for i := range uint64(1000) { // ten seconds of a node that has gone mad
			health.Boot.Restarts = i
			r.mustBe("a report", r.hear(to, report(3+i, wire.Encode(health))), "")
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(r.records(record.Report)) - before; n > 240 {
			t.Errorf("%d records", n)
		}
		if v, err := r.core.NodeHealth(t.Context(), op.NodeIn{Node: "n"}); err != nil || v.Report.Boot.Restarts != 999 {
			t.Errorf("the newest is not shown: %+v %v", v.Report, err)
		}
		r.whole()
	})
}
