package wire

// Encrypted is the file that a content is in, encrypted with age (age-encryption.org/v1) for whoever is to read it.
// Where it stands, addresses lead to this file, and all else that is said is of the content.
type Encrypted struct {
	Digest string `json:"digest"`                           // of the file: sha256: and 64 hexadecimal digits
	Size   int64  `json:"size" min:"1" max:"1099511627776"` // of the file, in bytes
}

// Equal reports whether both say the same.
func (e *Encrypted) Equal(o *Encrypted) bool {
	if e == nil || o == nil {
		return e == o
	}
	return *e == *o
}
