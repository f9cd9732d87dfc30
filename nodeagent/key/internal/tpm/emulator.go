package tpm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// answerLimit bounds one command of an emulator.
const answerLimit = 4 * time.Second

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 8 << 10

// emulator is the socket of an emulated TPM.
type emulator struct{ conn net.Conn }

func dial(path string) (*emulator, error) {
	conn, err := net.DialTimeout("unix", path, answerLimit)
	if err != nil {
		return nil, err
	}
	return &emulator{conn}, nil
}

// Close hangs up.
func (e *emulator) Close() error { return e.conn.Close() }

// Send sends a command and returns the answer, which begins with a tag of two bytes and its length in four.
func (e *emulator) Send(command []byte) ([]byte, error) {
	if err := e.conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return nil, err
	}
	if _, err := e.conn.Write(command); err != nil {
		return nil, err
	}
	head := make([]byte, 6)
	if _, err := io.ReadFull(e.conn, head); err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	n := binary.BigEndian.Uint32(head[2:])
	if n < 6 || n > maxAnswer {
		return nil, errors.New("its answer has no length that a TPM's can have")
	}
	answer := append(head, make([]byte, n-6)...)
	if _, err := io.ReadFull(e.conn, answer[6:]); err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	return answer, nil
}
