package record

import "time"

// TrimmedData is the data of Trimmed records: which records go. It is written before they do. An interruption leaves
// some of them, which the next such record has again.
type TrimmedData struct {
	First  uint64         `json:"first"` // the oldest of them
	Last   uint64         `json:"last"`  // the newest
	Count  int            `json:"count"`
	Bytes  int64          `json:"bytes"`  // with what the journal has around their data
	Kinds  map[string]int `json:"kinds"`  // how many there are of each kind, as --keep has it
	Oldest time.Time      `json:"oldest"` // time of First
	Newest time.Time      `json:"newest"` // time of Last
	Before string         `json:"before"` // chain hash before First, hexadecimal
	After  string         `json:"after"`  // chain hash of Last, hexadecimal
	Gone   uint64         `json:"gone"`   // how many records of the journal are gone then, all together
	File   string         `json:"file,omitempty"`
	Sum    string         `json:"sum,omitempty"` // "sha256:" and 64 hexadecimal digits, of File
}
