// Package unitconfig owns the unit configuration of seed 000: its JSON format (formatVersion
// "7"), its strict reading and canonical writing, the order of its versions, and the resolution
// of what each node of the unit gets from it.
//
// It guarantees that
//   - what Parse accepts is unambiguous: every field is known, no name, node, node type, partition
//     or label appears twice, every value is within its range;
//   - a refusal names every problem it can find in one pass, each with a JSON pointer, line and
//     column;
//   - reading what was written gives the same value back, to the nanosecond and the bit;
//   - resolving and encoding are deterministic: equal input, equal bytes, and every node that is
//     served by the same type-level entry shares the same bytes.
//
// The package is pure: it does no I/O, starts nothing and reads no clock. Its values are plain data
// that may be read from several goroutines as long as nobody writes to them.
//
// The reader's road: model.go (the shapes), parse.go (the format, field by field) on top of
// reader.go (JSON with positions), resolve.go (the three steps), then explain.go, diff.go, local.go.
//
//tandem:pure
package unitconfig
