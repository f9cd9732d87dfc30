package view

import "time"

// NoticeFilter says which entries of the journal a receiver of notices is told. What is left out picks everything.
type NoticeFilter struct {
	// "info", "warning" or "error": of this level or a higher one; if it is left out "warning", with types "info"
	Level string   `json:"level,omitempty"`
	Types []string `json:"types,omitempty"` // any of these types of records and of nodes' events; at most 32
	Nodes []string `json:"nodes,omitempty"` // about any of these nodes; * stands for anything; at most 32
	// about a node that this filter selects when the entry is read, such as "type:press"; about no node: not
	Where string   `json:"where,omitempty"`
	Who   []string `json:"who,omitempty"` // caused by any of these; * stands for anything; at most 32
}

// Notice is the data of a notice: an entry of the journal.
type Notice struct {
	Level string `json:"level"` // "info", "warning" or "error"
	Entry
	DataBytes int `json:"dataBytes,omitzero"` // the entry has so many bytes of data, which were left out
}

// NoticeGone is the data of a notice that says which records cannot be told any more.
type NoticeGone struct {
	Level string `json:"level"`           // "warning"
	Text  string `json:"text"`            // what happened, in words
	First uint64 `json:"first,omitempty"` // number of the first one that is gone
	Last  uint64 `json:"last,omitempty"`  // number of the last one
	Count uint64 `json:"count,omitempty"` // how many are gone; between First and Last others may be left
}

// NoticeQuiet is the data of a notice that says what was left out during an announced maintenance.
type NoticeQuiet struct {
	Level    string    `json:"level"`             // "info", or "warning" if some that were left out are
	Text     string    `json:"text"`              // what happened, in words
	Since    time.Time `json:"since"`             // when the maintenance was announced
	Until    time.Time `json:"until"`             // when it was to end
	Left     int       `json:"left"`              // how many entries were left out
	Warnings int       `json:"warnings,omitzero"` // of them
	First    uint64    `json:"first"`             // number of the first one
	Last     uint64    `json:"last"`              // number of the last one
}

// NoticeReceiver is somebody who is told by HTTP, and how that goes.
type NoticeReceiver struct {
	Name     string       `json:"name"`              // of the receiver
	URL      string       `json:"url"`               // scheme, host and port; the rest may be secret, and is not shown
	Filter   NoticeFilter `json:"filter"`            // what it is told
	CA       bool         `json:"ca,omitzero"`       // a CA of its own vouches for it, none of the system's
	Insecure bool         `json:"insecure,omitzero"` // without TLS, to another machine
	Always   bool         `json:"always,omitzero"`   // also during an announced maintenance
	Created  time.Time    `json:"created"`           // when it was added
	By       string       `json:"by,omitempty"`      // who added it

	State     string    `json:"state"`            // "ok", "behind", "failing" or "stopped"
	Cursor    uint64    `json:"cursor"`           // every record up to this one is done with
	Lag       uint64    `json:"lag"`              // records of the journal after Cursor
	Waiting   int       `json:"waiting"`          // notices that were read and not delivered yet
	Delivered uint64    `json:"delivered"`        // notices since the controller started
	Last      time.Time `json:"last,omitzero"`    // when one was delivered last, since the controller started
	LastID    string    `json:"lastId,omitempty"` // of that one
	Tries     int       `json:"tries,omitzero"`   // how often the next one was tried in vain
	NextTry   time.Time `json:"nextTry,omitzero"` // when it is tried again
	Error     string    `json:"error,omitempty"`  // why the newest try failed, or reading or writing
	ErrorAt   time.Time `json:"errorAt,omitzero"` // when that was
	Quiet     time.Time `json:"quiet,omitzero"`   // an announced maintenance: until then less is told
	LeftOut   int       `json:"leftOut,omitzero"` // entries that were left out in it so far
}

// NoticeGrant is a new receiver, with what its messages are signed with, which is shown once.
type NoticeGrant struct {
	NoticeReceiver
	Secret string `json:"secret"` // whsec_ and base64, as Standard Webhooks has it
}

// NoticeTest is what became of a notice that was sent to try a receiver.
type NoticeTest struct {
	Name   string `json:"name"`             // of the receiver
	ID     string `json:"id"`               // of the notice
	OK     bool   `json:"ok"`               // the receiver has taken it
	Status int    `json:"status,omitzero"`  // HTTP status; absent: there was no answer
	Answer string `json:"answer,omitempty"` // the beginning of what the receiver answered
	Error  string `json:"error,omitempty"`  // why it failed
	Millis int64  `json:"millis"`           // how long it took
}
