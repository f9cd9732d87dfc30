package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxSize bounds an encoded record and an encoded manifest, in bytes.
const MaxSize = 256 << 10

// The first words of the files. The number is the format's version: a launcher that does not know it
// boots by the other copy or by what it finds in the slots.
const (
	recordHead   = "tandem-slots 1 "
	manifestHead = "tandem-slot 1 "
)

// Manifest lies beside a slot's file and says what it is. It is written when the file has been
// verified, and is what the record is rebuilt from if both copies are lost.
type Manifest struct {
	Version   string         `json:"version"`
	Hash      string         `json:"hash"`
	Size      int64          `json:"size"`
	Committed uint64         `json:"committed,omitzero"` // number of the record that made the slot good; 0: it was not
	Rest      jsontext.Value `json:",embed,inline"`
}

// Encode renders a record: a line with a checksum, and JSON that people can read.
func (r Record) Encode() []byte { return encode(recordHead, &r) }

// Encode renders a manifest in the same way.
func (m Manifest) Encode() []byte { return encode(manifestHead, &m) }

// Seal renders v as a file of this format: its head and a checksum in one line, then JSON.
func Seal(head string, v any) []byte { return encode(head, v) }

// Unseal reads such a file. The error says what is wrong with it.
func Unseal(head string, data []byte, v any) error { return decode(head, data, v) }

func encode(head string, v any) []byte {
	body, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent(" "), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic("record: " + err.Error()) // the types are ours
	}
	return encodeBody(head, append(body, '\n'))
}

func encodeBody(head string, body []byte) []byte {
	sum := sha256.Sum256(body)
	return append([]byte(head+hex.EncodeToString(sum[:])+"\n"), body...)
}

// Decode reads a record. The error says what is wrong with it: cut short, altered, of a format that is
// not known, or a contradiction.
func Decode(data []byte) (Record, error) {
	var r Record
	if err := decode(recordHead, data, &r); err != nil {
		return Record{}, err
	}
	if err := r.Validate(); err != nil {
		return Record{}, fmt.Errorf("it contradicts itself: %w", err)
	}
	return r, nil
}

// DecodeManifest reads a manifest.
func DecodeManifest(data []byte) (Manifest, error) {
	var m Manifest
	if err := decode(manifestHead, data, &m); err != nil {
		return Manifest{}, err
	}
	if !ValidHash(m.Hash) || m.Size < 0 {
		return Manifest{}, errors.New("it names no file")
	}
	return m, nil
}

func decode(head string, data []byte, v any) error {
	if len(data) == 0 {
		return errors.New("it is empty")
	}
	if len(data) > MaxSize {
		return fmt.Errorf("it is longer than %d bytes", MaxSize)
	}
	rest, ok := bytes.CutPrefix(data, []byte(head))
	if !ok {
		return fmt.Errorf("it does not begin with %q", head)
	}
	line, body, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return errors.New("it is cut short")
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(line) {
		return errors.New("its checksum does not match")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("it is not JSON of its format: %w", err)
	}
	return nil
}

// ValidHash says whether h is "sha256:" and 64 hex digits in lower case.
func ValidHash(h string) bool {
	digits, ok := strings.CutPrefix(h, "sha256:")
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}
