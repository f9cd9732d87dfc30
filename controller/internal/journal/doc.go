// Package journal owns the truth of a unit: one bbolt file (mode 0600) that holds everything
// that happened, in order, and never says anything else afterwards.
//
// The bucket tree; integers are big-endian, hashes are SHA-256:
//
//	meta                      small enough to live inside bbolt's root page: costs no extra write
//	  version                 format version, decimal text; see Version
//	  epoch                   uint64, see Epoch
//	  created                 RFC 3339 text with nanoseconds; seeds the chain
//	  head                    uint64 seq ++ chain hash of the newest record ever appended
//	  copy                    present in a backup only: whoever opens it for writing raises the epoch
//	log
//	  <seq uint64>            chain hash [32] ++ header ++ data
//	gaps                      what Drop removed from the log, so that the chain stays provable
//	  <first seq uint64>      last seq uint64 ++ chain hash of the last seq
//	bodies
//	  <sha256 [32]>           the bytes that have this hash
//	checkpoint                the newest snapshot of the state that the records lead to
//	  head                    uint64 seq ++ uint32 chunks ++ hash over all chunks
//	  <index uint32>          one chunk
//
// The header of a record is: type, At as seconds and nanoseconds, then node, who and kind, each
// with its length; all integers as minimal varints. Data is the rest. The chain is
//
//	chain[0] = SHA256("tandem journal\n" ++ created)
//	chain[i] = SHA256(chain[i-1] ++ uint64(i) ++ header ++ data)
//
// so that changing, removing, adding or moving one record shows (Verify). It proves integrity
// against accidents and against whoever cannot rewrite the whole file; it is not a signature.
//
// What it guarantees:
//
//   - When Append returns nil the batch is on the disk, whole. When it returns an error that is
//     not ErrBroken nothing of the batch is there and the journal can be used on.
//   - After ErrBroken the last batch is on the disk whole or not at all, and which of the two is
//     known only by opening the file again. Until then every Append is refused, so nothing can be
//     acknowledged on top of an unknown. The process should stop: after a failed fsync the
//     kernel's cache may show what the disk does not have.
//   - Sequence numbers rise by one, from 1, and are never used twice within an epoch.
//   - A record that is read is proved by the chain: one that was changed behind the journal's back is ErrDamaged, with
//     its number, and never taken for another. So are bodies, by their hash, and the checkpoint, by its sum.
//   - Where the page that names the newest commit is not valid, the commit before counts, in a higher epoch.
//   - Readers never stop the writer: they copy out short chunks. Backup is the one long read
//     transaction; it makes the file grow while it runs but holds nobody up until the file
//     outgrows Options.MapSize.
//
// What it must not do: understand the records' data (but the hash of a document that was accepted, and what is said of
// records that went, for Verify and exports), decide anything, publish anything, or run
// a caller's function inside a transaction.
//
// Questions for few records of many pass over blocks of records that an index in memory says cannot have them. It is
// learned from what is appended, and from whoever reads the log in order, as the controller does at its start: nothing
// of it is in the file.
//
// Open walks bbolt's page tree before bbolt uses it (pageWalk), so a file with broken pages is
// refused with a message; it reads every page once for that: about a second per cached GiB.
//
// bbolt extends its file in steps of 16 MiB by truncation, which reserves no blocks: a full disk
// shows as a failed write inside a commit (ErrBroken, code storage), never as a fault on the
// memory map, because no page is read before it was written. Files never shrink by themselves;
// CompactFile makes a small copy while nobody has the journal open (tandem-controller journal compact).
package journal
