package wire

// The limits that shared/docs/wire.md lists and that only the decoders know.
const (
	MaxDepth = maxDepth
	MaxName  = maxName
	MaxKinds = maxKinds
	MaxList  = maxList
)
