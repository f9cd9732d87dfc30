package view

import "time"

// TrimPlan is what a trim of the journal would remove now.
type TrimPlan struct {
	UpTo        uint64     `json:"upTo"`         // newest record that was looked at
	KeepRecords int        `json:"keepRecords"`  // newest records that stay; superseded documents do not count
	At          time.Time  `json:"at,omitzero"`  // by which ages are judged; absent: the clock has jumped, and none are
	Kinds       []TrimKind `json:"kinds"`        // each kind that --keep knows; and "", what always stays
	Records     int        `json:"records"`      // that would go
	Bytes       int64      `json:"bytes"`        // of these, without documents
	Documents   int64      `json:"documents"`    // bytes of documents that would go with them
	Dir         string     `json:"dir,omitzero"` // for exports; absent: there are none
	Files       []TrimFile `json:"files"`        // that would be written there, or would be if there were a directory
}

// TrimKind is what would go of a kind of records.
type TrimKind struct {
	Kind  string         `json:"kind"`          // as --keep names it
	Rule  string         `json:"rule"`          // of --keep
	There TrimAmount     `json:"there"`         // what is there now
	Goes  TrimAmount     `json:"goes"`          // what would go
	Why   map[string]int `json:"why,omitempty"` // how many would go by age, number, size, or as too many of one source
}

// TrimAmount is how much there is.
type TrimAmount struct {
	Records int   `json:"records"` // so many
	Bytes   int64 `json:"bytes"`   // of these, in the journal
}

// TrimFile is a part of what would go, by one record trimmed.
type TrimFile struct {
	Name      string `json:"name"`      // of the export
	First     uint64 `json:"first"`     // number of the first record that would go
	Last      uint64 `json:"last"`      // of the last one
	Records   int    `json:"records"`   // that are in it
	Bytes     int64  `json:"bytes"`     // of these in the journal
	Documents int64  `json:"documents"` // bytes of documents with them
}
