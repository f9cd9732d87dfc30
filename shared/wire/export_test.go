package wire

// The limits that shared/docs/wire.md lists and that only the decoders know.
const (
	MaxDepth = maxDepth
	MaxName  = maxName
	MaxText  = maxText
	MaxKinds = maxKinds
	MaxList  = maxList
)
