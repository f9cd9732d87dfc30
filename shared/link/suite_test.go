package link_test

import (
	"testing"

	"go.uber.org/goleak"

	"tandem.internal/shared/link/linktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDialSuite(t *testing.T) {
	linktest.RunSuite(t, func(t *testing.T) linktest.Rig { return newServer(t) })
}
