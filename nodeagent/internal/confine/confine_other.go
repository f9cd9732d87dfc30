//go:build !linux

package confine

// Apart calls f.
func Apart(f func()) (tid int) {
	f()
	return 0
}

// NoNewPrivs does nothing here.
func NoNewPrivs() error { return nil }
