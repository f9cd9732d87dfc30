package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem.internal/shared/wire"
)

// The contract's defaults, bounds, indicators and words are the code's.
func TestContractHealth(t *testing.T) {
	doc := contract(t)
	times := map[string]string{}
	for _, r := range rows(t, doc, "| setting | default | least | most | meaning |") {
		times[strings.Trim(r[0], "`")] = strings.Join(r[1:4], " ")
	}
	for name, want := range map[string][3]wire.Span{
		"reset":    {wire.DefaultReset, wire.MinReset, wire.MaxReset},
		"fallback": {wire.DefaultFallback, wire.MinFallback, wire.MaxFallback},
		"test":     {wire.DefaultTest, wire.MinTest, wire.MaxTest},
		"contact":  {wire.DefaultContact, wire.MinContact, wire.MaxContact},
		"watchdog": {wire.DefaultWatchdog, wire.MinWatchdog, wire.MaxWatchdog},
	} {
		said := strings.ReplaceAll(fmt.Sprintf("%v %v %v", want[0], want[1], want[2]), wire.MaxSpan.String(),
			"PT4294967295S")
		if got := times[name]; got != said {
			t.Errorf("%s: %s in the contract, %v in the code", name, got, want)
		}
	}
	for i := range wire.IndicatorTexts {
		if !strings.Contains(doc, fmt.Sprintf(" %d ", i)) {
			t.Errorf("the contract does not name indicator %d", i)
		}
	}
	for _, c := range []wire.WaitCode{wire.WaitSlots, wire.WaitMaintenance, wire.WaitCheck, wire.WaitContact,
		wire.WaitApproval, wire.WaitTestTime,
		wire.WaitCommit, wire.WaitRestart, wire.WaitWayBack} {
		if !strings.Contains(doc, "`"+string(c)+"`") {
			t.Errorf("the contract does not name what a trial waits for: %s", c)
		}
	}
}
