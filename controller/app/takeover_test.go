package app

import (
	"math"
	"strings"
	"testing"
)

func TestRoomForTheCopy(t *testing.T) {
	dir := t.TempDir()
	if f := room(dir, 0); f.Obstacle {
		t.Errorf("%+v", f)
	}
	if f := room(dir, math.MaxInt64-startRoom); !f.Obstacle || !strings.Contains(f.Text, "make room") ||
		!strings.Contains(f.Text, "with the copy of the journal") {
		t.Errorf("%+v", f)
	}
	if f := room(dir+"/none", 0); !f.Obstacle {
		t.Errorf("%+v", f)
	}
}
