package op

import (
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/wire"
)

// Who is told by HTTP what the journal has.
var (
	ListNotices = define(Op[None, Notices]{
		Name: "notices.list", Route: "GET /v1/notices", Role: View,
		About: "Lists the receivers of notices, by name, and how far each has come.",
	})
	ShowNotice = define(Op[NoticeIn, view.NoticeReceiver]{
		Name: "notice.show", Route: "GET /v1/notices/{receiver}", Role: View,
		About: "Shows one receiver of notices, and how far it has come.",
	})
	AddNotice = define(Op[NewNotice, view.NoticeGrant]{
		Name: "notice.add", Route: "POST /v1/notices", Role: Admin,
		About: "Adds a receiver of notices. What its messages are signed with is shown in this answer and nowhere " +
			"else.",
	})
	TestNotice = define(Op[NoticeIn, view.NoticeTest]{
		Name: "notice.test", Route: "POST /v1/notices/{receiver}/test", Role: Operate,
		About: "Sends a notice to a receiver now, for a test, and tells what it answers.",
	})
	RemoveNotice = define(Op[NoticeIn, view.NoticeReceiver]{
		Name: "notice.remove", Route: "DELETE /v1/notices/{receiver}", Role: Admin,
		About: "Removes a receiver of notices: nothing is sent to it any more.",
	})
)

// Notices is every receiver of notices.
type Notices struct {
	Receivers []view.NoticeReceiver `json:"receivers"` // by name
}

// NoticeIn names a receiver of notices.
type NoticeIn struct {
	Receiver string `path:"receiver" json:"-"` // name of the receiver
}

// NewNotice describes a receiver of notices.
type NewNotice struct {
	Name string `json:"name"` // of the receiver
	URL  string `json:"url"`  // https, or http to this machine; its path and query are not shown again
	view.NoticeFilter
	CA       string  `json:"ca,omitempty"`      // PEM: who vouches for it; the system's authorities if it is left out
	Insecure bool    `json:"insecure,omitzero"` // http to another machine is meant
	Always   bool    `json:"always,omitzero"`   // also during an announced maintenance
	After    *uint64 `json:"after,omitempty"`   // tell what the journal has after this record; if left out what comes
}

// Check judges that there is an address; the receivers judge the rest.
func (in *NewNotice) Check() *wire.Error {
	if in.URL == "" {
		return wire.New(wire.CodeMissing, "/url", "required: where notices are sent to")
	}
	return nil
}
