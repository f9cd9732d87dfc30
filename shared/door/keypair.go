package door

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tandem.internal/shared/durable"
)

// maxPEM is the size of the largest file with certificates or a key, in bytes.
const maxPEM = 4 << 20

// OpenKeyPair reads a certificate and its key, in PEM. flags are the names of the settings with their paths, which
// errors begin with. A key that everybody may read is an error.
func OpenKeyPair(cert, key, flags string, log *zap.Logger) (*KeyPair, error) {
	k := &KeyPair{cert: cert, key: key, flags: flags, log: log, reading: make(chan struct{}, 1)}
	p, err := k.read()
	if err != nil {
		return nil, err
	}
	k.current.Store(p)
	return k, nil
}

// KeyPair is a certificate and its key in two files. The files are read again when they change.
type KeyPair struct {
	cert, key string
	flags     string // by which they were named, for errors
	log       *zap.Logger
	reading   chan struct{} // of size 1: holds a value while a handshake checks the files
	current   atomic.Pointer[pair]
}

// pair is the content of the two files when they were last read.
type pair struct {
	cert    *tls.Certificate
	times   [2]time.Time // modification times of the files
	checked time.Time    // when the files last had these modification times
}

// checkEvery is the least time between two checks of the files.
const checkEvery = 10 * time.Second

// Get returns the certificate. At most every checkEvery, one handshake checks the files. If they cannot be
// used, Get logs that and returns the certificate read before: while files are replaced they may not match.
func (k *KeyPair) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p := k.current.Load()
	if time.Since(p.checked) < checkEvery {
		return p.cert, nil
	}
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	default:
		return p.cert, nil
	}
	next := *p
	next.checked = time.Now()
	if times, err := k.times(); err != nil || times != p.times {
		fresh, err := k.read()
		if err != nil {
			k.log.Warn("a certificate was not read again; the one before stays in use", zap.Error(err))
		} else {
			next = *fresh
		}
	}
	k.current.Store(&next)
	return next.cert, nil
}

// times returns the modification times of the two files.
func (k *KeyPair) times() (t [2]time.Time, err error) {
	for i, path := range []string{k.cert, k.key} {
		info, err := os.Stat(path)
		if err != nil {
			return t, err
		}
		t[i] = info.ModTime()
	}
	return t, nil
}

// read reads the two files. A key that everybody may read is an error.
func (k *KeyPair) read() (*pair, error) {
	p := &pair{checked: time.Now()}
	var err error
	if p.times, err = k.times(); err != nil {
		return nil, fmt.Errorf("%s: %w", k.flags, err)
	}
	if info, err := os.Stat(k.key); err == nil && info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s: everybody may use %s (mode %04o); chmod it to 0600 or 0640",
			k.flags, k.key, info.Mode().Perm())
	}
	cert, err := durable.ReadFile(k.cert, maxPEM)
	if err != nil {
		return nil, err
	}
	key, err := durable.ReadFile(k.key, maxPEM)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(cert, key)
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok {
		err = fmt.Errorf("%s and %s: %w", k.cert, k.key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.flags, err)
	}
	p.cert = &c
	return p, nil
}
