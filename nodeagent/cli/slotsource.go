package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"tandem.internal/nodeagent/internal/slot"
	"tandem.internal/shared/publisher"
)

// source is a file that is to be staged, and its signature.
type source struct {
	*os.File
	signed    *os.File // nil: it was not opened
	signature string   // "": there is none
}

// signatureOf is the file with the signature of a file, if none is named.
func signatureOf(file, signature string) string {
	if signature == "" {
		return file + ".minisig"
	}
	return signature
}

// open opens the files with root's rights, where that may be.
func (s *source) open(file, signature string, open func(string) (*os.File, bool)) {
	if file == "" {
		return
	}
	if f, ok := open(file); ok {
		s.File = f
	}
	if f, ok := open(signatureOf(file, signature)); ok {
		s.signed = f
	}
}

// openAsOwner opens what is not open yet, and reads the signature. That may be missing, unless it is named.
func (s *source) openAsOwner(file, signature string) (err error) {
	if file == "" {
		return nil
	}
	if s.File == nil {
		if s.File, err = slot.OpenSource(file); err != nil {
			return err
		}
	}
	name := signatureOf(file, signature)
	if s.signed == nil {
		s.signed, err = slot.OpenSource(name)
		// the owner may not look where only root may: had it been there, root would have opened it
		if signature == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			return nil
		}
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(s.signed, publisher.MaxSignature+1))
	}
	if err == nil {
		_, err = publisher.Parse(string(data))
	}
	if err != nil {
		return fmt.Errorf("the signature %s: %w", name, err)
	}
	s.signature = string(data)
	return nil
}

func (s source) close() { // they were only read
	_ = s.File.Close()
	_ = s.signed.Close()
}
