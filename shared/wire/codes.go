package wire

import "strings"

// Code is a reason for programs. The list only grows; meanings never change.
type Code string

// The error codes. Meanings has one sentence for each.
const (
	CodeMalformed       Code = "malformed"
	CodeUnknownField    Code = "unknown-field"
	CodeDuplicate       Code = "duplicate"
	CodeMissing         Code = "missing"
	CodeBadValue        Code = "bad-value"
	CodeTooLarge        Code = "too-large"
	CodeWrongVersion    Code = "wrong-version"
	CodeWrongTarget     Code = "wrong-target"
	CodeUnsigned        Code = "unsigned"
	CodeBadSignature    Code = "bad-signature"
	CodeUnknownKey      Code = "unknown-key"
	CodeHashMismatch    Code = "hash-mismatch"
	CodeFork            Code = "fork"
	CodeStale           Code = "stale"
	CodeExpired         Code = "expired"
	CodeBelowFloor      Code = "below-floor"
	CodeAlreadyExists   Code = "already-exists"
	CodeWrongState      Code = "wrong-state"
	CodeInvalidArgument Code = "invalid-argument"
	CodeNotFound        Code = "not-found"
	CodeNotAllowed      Code = "not-allowed"
	CodeNotSupported    Code = "not-supported"
	CodeQuarantined     Code = "quarantined"
	CodeUnconfirmed     Code = "unconfirmed"
	CodeApplyFailed     Code = "apply-failed"
	CodeDrift           Code = "drift"
	CodeTimeout         Code = "timeout"
	CodeInterrupted     Code = "interrupted"
	CodeStorage         Code = "storage"
	CodeNoAnswer        Code = "no-answer"
	CodeUnavailable     Code = "unavailable"
	CodeInternal        Code = "internal"
)

// Meanings has one sentence about each code.
var Meanings = map[Code]string{
	CodeMalformed:       "The input is not well-formed.",
	CodeUnknownField:    "The input has a field that its format does not name.",
	CodeDuplicate:       "Something that must be unique appears twice.",
	CodeMissing:         "A required field is absent.",
	CodeBadValue:        "A value is outside what its format or the node's own rules allow.",
	CodeTooLarge:        "The input is larger than the limit.",
	CodeWrongVersion:    "The format or wire version is not one that the receiver speaks.",
	CodeWrongTarget:     "The message is for another unit, node or kind.",
	CodeUnsigned:        "The message carries no signature.",
	CodeBadSignature:    "The signature does not match the message.",
	CodeUnknownKey:      "The message is signed with a key that the receiver does not trust.",
	CodeHashMismatch:    "The body's hash is not the one that the envelope names.",
	CodeFork:            "Two different documents carry the same epoch and rev.",
	CodeStale:           "A newer document is already known.",
	CodeExpired:         "The request came after the time it was valid for, or a publisher's signature has ended.",
	CodeBelowFloor:      "The version is lower than the lowest that a publisher has signed for this node.",
	CodeAlreadyExists:   "The same version is already installed.",
	CodeWrongState:      "A higher version is already installed.",
	CodeInvalidArgument: "A version or an argument cannot be understood.",
	CodeNotFound:        "What was asked for does not exist.",
	CodeNotAllowed:      "The caller or the node's own rules do not permit this.",
	CodeNotSupported:    "The receiver does not know how to do this.",
	CodeQuarantined:     "The same content has failed before, and was not forced.",
	CodeUnconfirmed:     "The tried document was not confirmed in time and was rolled back.",
	CodeApplyFailed:     "The node's apply command failed.",
	CodeDrift:           "What is in place on the node is not the document any more.",
	CodeTimeout:         "The work did not end within its time limit.",
	CodeInterrupted:     "The agent stopped before the document was confirmed, so it was rolled back.",
	CodeStorage:         "The disk refused a write, so nothing was accepted.",
	CodeNoAnswer:        "An online node did not answer in time.",
	CodeUnavailable:     "The service is not ready or cannot be reached.",
	CodeInternal:        "Something went wrong that is not the caller's fault.",
}

// Error is a refusal or a failure: a code for programs, a JSON pointer to the place, a message of limited length for
// people. Line and Column are set if the input was a text of the caller; Node if a node has reported the error.
type Error struct {
	Code    Code   `json:"code"`            // what is wrong, for programs
	Path    string `json:"path,omitempty"`  // JSON pointer (RFC 6901) of the place
	Message string `json:"message"`         // what is wrong, for people
	Node    string `json:"node,omitempty"`  // ID of the node that reported it
	Line    int    `json:"line,omitzero"`   // line in the document; the first is 1
	Column  int    `json:"column,omitzero"` // column in that line, in characters; the first is 1
	Nodes   int    `json:"nodes,omitzero"`  // of a refusal at /allNodes: how many nodes there are
}

// PathAllNodes is the place of a refusal of what would hit every node: the field that confirms it.
const PathAllNodes = "/allNodes"

// Error returns code, message, place and node on one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	b.WriteString(": ")
	b.WriteString(e.Message)
	if e.Path != "" {
		b.WriteString(" (at ")
		b.WriteString(e.Path)
		b.WriteString(")")
	}
	if e.Node != "" {
		b.WriteString(" [node ")
		b.WriteString(e.Node)
		b.WriteString("]")
	}
	return b.String()
}

// Is reports whether target is an Error with the same code: errors.Is(err, &wire.Error{Code: wire.CodeStale}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of an error; "": there is none.
func CodeOf(e *Error) Code {
	if e == nil {
		return ""
	}
	return e.Code
}

// New returns an Error. It shortens path and message to the limits of the contract.
func New(code Code, path, message string) *Error {
	return &Error{Code: code, Path: clip(path, MaxPath), Message: clip(message, MaxMessage)}
}
