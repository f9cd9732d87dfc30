package wire

// ShowParams asks for the signature of the newest document of a kind that a node has accepted.
type ShowParams struct {
	Kind Kind `json:"kind"`
}

// Shown is what is signed of a document, and the signature; the unit, the node and the kind are known.
type Shown struct {
	Epoch         uint64     `json:"epoch"`
	Rev           uint64     `json:"rev"`
	Version       string     `json:"version"`
	Hash          string     `json:"hash"`
	Mode          Mode       `json:"mode"`
	ConfirmWithin string     `json:"confirmWithin,omitempty"`
	Sig           *Signature `json:"sig"`
}

// Shown returns what a node shows of a document.
func (d *Desired) Shown() *Shown {
	return &Shown{d.Epoch, d.Rev, d.Version, d.Hash, d.Mode, d.ConfirmWithin, d.Sig}
}

// Of returns the envelope that was signed, without the body.
func (s *Shown) Of(unit, node string, kind Kind) *Desired {
	return &Desired{V: Version, Unit: unit, Node: node, Kind: kind, Epoch: s.Epoch, Rev: s.Rev, Version: s.Version,
		Hash: s.Hash, Mode: s.Mode, ConfirmWithin: s.ConfirmWithin, Sig: s.Sig}
}

func (s *Shown) check() error {
	if err := first(positive("/epoch", s.Epoch), positive("/rev", s.Rev), text("/version", s.Version),
		hash("/hash", s.Hash), key(s.Sig)); err != nil {
		return err
	}
	if s.Mode != ModeApply && s.Mode != ModeTry {
		return New(CodeBadValue, "/mode", "neither apply nor try")
	}
	return confirmWithin(s.Mode, s.ConfirmWithin)
}
