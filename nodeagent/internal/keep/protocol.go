package keep

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tandem.internal/shared/wire"
)

// Protocol is the newest version of the protocol that this program speaks.
//
// An agent meets keepers of older versions of its own program, and after a rollback newer ones. So
// versions only add: a field or an operation that one side does not know is passed over by it, an
// operation is answered with CodeNotSupported. Whoever depends on something newer than 1 looks at
// Keeper.Protocol first.
//
//	1: hello, start, list, get, stop, signal, forget, follow, quit
//	2: Run.Confine; confine, which is start for a run that must not be started without
//	3: Run.Slot; clear
//	4: Run.Contain and Run.StopSignal; contain, which is start for a run with Contain
const Protocol = 4

// maxMessage is the size of one message, in either direction.
const maxMessage = 256 << 10

// pageSize is how many runs one answer lists at most.
const pageSize = 100

// The operations.
const (
	opHello   = "hello"
	opStart   = "start"
	opConfine = "confine"
	opContain = "contain"
	opList    = "list"
	opGet     = "get"
	opStop    = "stop"
	opSignal  = "signal"
	opForget  = "forget"
	opFollow  = "follow"
	opQuit    = "quit"
	opClear   = "clear"
)

// request is one line from a client.
type request struct {
	Protocol int           `json:"protocol"` // of the client
	Op       string        `json:"op"`
	ID       string        `json:"id,omitempty"`
	Run      *Run          `json:"run,omitempty"`
	Grace    time.Duration `json:"grace,omitzero"`
	Signal   int           `json:"signal,omitzero"`
	Force    bool          `json:"force,omitzero"`
	After    string        `json:"after,omitempty"` // list: the IDs behind this one
	Dir      string        `json:"dir,omitempty"`   // clear
}

// answer is one line from the keeper: one for a request, and any number for follow.
type answer struct {
	Keeper Keeper      `json:"keeper,omitzero"`
	Error  *wire.Error `json:"error,omitempty"`
	Status []Status    `json:"status,omitempty"`
	More   bool        `json:"more,omitzero"` // list: there are runs behind these
}

// errTooLong says that a message is longer than maxMessage.
var errTooLong = errors.New("the message is too long")

// readMessage reads one line into v. The error is io.EOF if there is none.
func readMessage(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			return errTooLong
		}
		if err == nil && line == nil {
			line = part // all of it is in the reader's buffer
			break
		}
		line = append(line, part...)
		if errors.Is(err, io.EOF) && len(line) > 0 {
			return io.ErrUnexpectedEOF
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	if err := json.Unmarshal(line, v, codec); err != nil {
		return fmt.Errorf("the message is not JSON of its format: %w", err)
	}
	return nil
}

// encodeMessage writes v as one line.
func encodeMessage(v any) ([]byte, error) {
	data, err := json.Marshal(v, codec)
	if err != nil {
		return nil, fmt.Errorf("encode a message: %w", err)
	}
	if len(data) >= maxMessage {
		return nil, errTooLong
	}
	return append(data, '\n'), nil
}

// codec has durations as nanoseconds. Fields that are not known are passed over.
var codec = json.JoinOptions(
	json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, d time.Duration) error {
		return e.WriteToken(jsontext.Int(int64(d)))
	})),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, to *time.Duration) error {
		return json.UnmarshalDecode(d, (*int64)(to))
	})),
)
