package journal

import "tandem.internal/controller/internal/record"

// The record types under the names that these tests use.
const (
	Opened    = record.Opened
	Accepted  = record.Accepted
	Refused   = record.Refused
	Issued    = record.Issued
	Withdrawn = record.Withdrawn
	Report    = record.Report
	Live      = record.Live
	Event     = record.Event
	Trouble   = record.Trouble
	Note      = record.Note
	typeEnd   = record.Backup + 1
)

var (
	ParseType = record.ParseType
	Types     = record.Types
)
