// Package unitconfig owns the unit configuration of seed 000: the JSON format (formatVersion "7"), strict parsing,
// canonical encoding, the order of versions, and the resolution of each node's configuration.
//
//   - A configuration that Parse accepts is unambiguous: it has no unknown fields, no node, node type, partition or
//     label twice, and all values are in their ranges.
//   - Parse reports all problems that it finds in one pass, each with JSON pointer, line and column.
//   - Parse returns exactly the value that Encode was given.
//   - Resolving and encoding are deterministic: equal input gives equal bytes. All nodes of an entry for a type get the
//     same bytes.
//
// The package is pure: it does no I/O, starts no goroutine and reads no clock. Its values are plain data, which any
// number of goroutines may read as long as none writes.
//
// Read model.go first (the types), then parse.go (the format), resolve.go (what each node gets), and explain.go,
// diff.go and local.go.
//
//tandem:pure
package unitconfig
