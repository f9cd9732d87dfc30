package apitest

import (
	"context"
	"strings"
	"testing"
	"time"

	"tandem.internal/controller/internal/distribute"
	"tandem.internal/controller/internal/notify"
	"tandem.internal/controller/internal/notify/deliver"
)

// notices are a rig's receivers of notices. They are told nothing unless they are tested.
func notices(tb testing.TB, dir string, core *distribute.Core, now func() time.Time) *deliver.Manager {
	m, err := deliver.Open(deliver.Config{Dir: dir, Unit: unit, Journal: core, Now: now, Random: &counter{},
		NewSender: func(to notify.Receiver) (deliver.Sender, error) {
			if _, err := deliver.NewSender(to); err != nil {
				return nil, err
			}
			return answering(to.URL), nil
		}})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// answering is what receivers answer at an address: those whose name begins with down are.
type answering string

// Send implements deliver.Sender.
func (a answering) Send(context.Context, notify.Message, time.Time) deliver.Answer {
	if strings.Contains(string(a), "://down") {
		return deliver.Answer{Status: 503, Text: "be back soon",
			Err: "it answered 503 Service Unavailable: be back soon"}
	}
	return deliver.Answer{Status: 200, Text: "thanks"}
}

// Close implements deliver.Sender.
func (answering) Close() {}
