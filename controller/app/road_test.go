package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tandem.internal/shared/link"
)

// nobody hears nothing.
type nobody struct{}

func (nobody) Up(uint64)            {}
func (nobody) Down(uint64, error)   {}
func (nobody) Message(link.Message) {}

// TestRoadIsLogged: how an external broker is, is logged when it changes, not at each attempt.
func TestRoadIsLogged(t *testing.T) {
	seen, log := observer.New(zap.InfoLevel)
	r := &road{Handler: nobody{}, log: zap.New(seen)}
	refused, gone := fmt.Errorf("%w: wrong password", link.ErrRefused), errors.New("nothing listens there")
	r.Up(1)
	for range 3 {
		r.Down(0, gone)
	}
	for range 3 {
		r.Down(0, refused)
	}
	r.Down(0, fmt.Errorf("%w: %w", link.ErrRefused, link.ErrUnavailable))
	r.Up(2)
	r.Down(2, fmt.Errorf("stopped: %w", context.Canceled))
	want := []string{"is not there", "refuses this controller: see --broker-user", "nobody from here", "there again"}
	if !slices.EqualFunc(log.All(), want, func(e observer.LoggedEntry, want string) bool {
		return strings.Contains(e.Message, want)
	}) {
		t.Errorf("%+v", log.All())
	}
}
