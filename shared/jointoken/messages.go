package jointoken

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tandem.internal/shared/wire"
)

// Paths of the join door, an HTTPS server of the controller.
const (
	JoinPath  = "/join"  // POST a JoinRequest; answered with an Admission
	RenewPath = "/renew" // POST a RenewRequest with the node's certificate; answered with an Admission
	KeysPath  = "/keys"  // POST an empty object with the node's certificate; answered with a KeyList
	// ReportKeyPath: POST an empty object with the node's certificate; answered with a ReportKey
	ReportKeyPath = "/report-key"
	// ArtefactPath and a digest: GET with the node's certificate; answered with the content of that digest
	ArtefactPath = "/artefacts/"
	// CAPath: POST an empty object with the node's certificate; answered with a CAList
	CAPath = "/ca"
	// RootPath: POST an empty object; answered with a rootlist.Chain, which needs nobody to vouch for it
	RootPath = "/root"
)

// ServerName is a host name in every server certificate of a unit's controller. Nodes verify it instead of an
// address: addresses change, and the unit's CA issues this name to the controller only.
const ServerName = "controller.tandem.internal"

// ArtefactURL is the address of an artefact for all nodes, whatever name or address each has joined by: it knows the
// way to the controller by this one.
func ArtefactURL(digest string) string { return "https://" + ServerName + ArtefactPath + digest }

// Scheme is the scheme of the URIs that identify certificates: tandem://UNIT/node/NODE, tandem://UNIT/cloud/NAME,
// tandem://UNIT/operator/NAME, tandem://UNIT/broker/NAME and tandem://UNIT/controller.
const Scheme = "tandem"

// IdentityURI returns the URI of a subject of a unit: that of "node/n1" in unit u1 is tandem://u1/node/n1.
func IdentityURI(unit, subject string) string { return Scheme + "://" + unit + "/" + subject }

// ParseIdentity is the inverse of IdentityURI. Any other URI is an error.
func ParseIdentity(uri string) (unit, subject string, err error) {
	rest, ok := strings.CutPrefix(uri, Scheme+"://")
	unit, subject, more := strings.Cut(rest, "/")
	if !ok || !more || !wire.ValidName(unit) || !ValidSubject(subject) {
		return "", "", fmt.Errorf("%.200q is not an identity of a unit", uri)
	}
	return unit, subject, nil
}

// BrokerRole is the role of a broker that is not part of the controller. It is a server, never a client.
const BrokerRole = "broker"

// ValidSubject reports whether s is "controller", or a role and a name: "node/n1", "cloud/eu",
// "operator/ann", "broker/b1". Every subject but a broker's is also the client ID and user name at the broker.
func ValidSubject(s string) bool {
	if s == "controller" {
		return true
	}
	role, name, _ := strings.Cut(s, "/")
	switch role {
	case "node", "cloud", "operator", BrokerRole:
		return wire.ValidName(name)
	}
	return false
}

// Limits of the messages, in bytes.
const (
	MaxRequest = 16 << 10
	MaxAnswer  = 64 << 10
	maxKeys    = 16
	maxBrokers = 8
	maxKinds   = 64
	maxCAs     = 4
	maxRefused = 1024
	maxURL     = 512
)

// JoinRequest asks for a node's first certificate.
type JoinRequest struct {
	Node   string `json:"node"`
	Secret string `json:"secret"` // hexadecimal
	CSR    []byte `json:"csr"`    // PKCS #10 in DER, base64 in JSON
}

// SecretBytes returns the secret. The error is a *wire.Error that does not contain it.
func (r *JoinRequest) SecretBytes() (Secret, error) {
	var s Secret
	if hex.DecodedLen(len(r.Secret)) != len(s) {
		return s, wire.New(wire.CodeBadValue, "/secret", "not 32 hexadecimal digits")
	}
	if _, err := hex.Decode(s[:], []byte(r.Secret)); err != nil {
		return s, wire.New(wire.CodeBadValue, "/secret", "not 32 hexadecimal digits")
	}
	return s, nil
}

// NewJoinRequest returns the request of the node with a token. csr is PKCS #10 in DER.
func NewJoinRequest(t Token, csr []byte) JoinRequest {
	return JoinRequest{Node: t.Node, Secret: hex.EncodeToString(t.Secret[:]), CSR: csr}
}

// RenewRequest asks for the next certificate. The certificate of the connection identifies the node.
type RenewRequest struct {
	CSR []byte `json:"csr"`
}

// Admission is the answer to a join or renewal: everything that a node needs to be part of its unit.
type Admission struct {
	Unit        string     `json:"unit"`
	Node        string     `json:"node"`
	Certificate []byte     `json:"certificate"` // DER, for the key in the request
	CA          []byte     `json:"ca"`          // DER of the unit's CA, the only one to trust
	UnitKeys    []wire.Key `json:"unitKeys"`    // the controller's public signing keys, the oldest first
	KeysRev     uint64     `json:"keysRev,omitzero"`
	Floor       Floor      `json:"floor,omitzero"`
	Brokers     []Broker   `json:"brokers"` // in order of preference
}

// Floor has the stamps below which documents are old, for a node without saved state.
type Floor struct {
	Epoch uint64 `json:"epoch,omitzero"` // of the unit
	// Rev is the unit's newest rev. Documents of kinds that Kinds does not have must be newer.
	Rev   uint64                   `json:"rev,omitzero"`
	Kinds map[wire.Kind]wire.Stamp `json:"kinds,omitzero"` // stamps of the node's present documents
	Time  time.Time                `json:"time,omitzero"`  // by the controller's clock
}

// KeyList has the signing keys of the unit, as the beacon has them.
type KeyList struct {
	Unit     string     `json:"unit"`
	UnitKeys []wire.Key `json:"unitKeys"`
	KeysRev  uint64     `json:"keysRev,omitzero"`
}

// ReportKey is the key with which a node proves its messages; see wire.Prove.
type ReportKey struct {
	Unit   string `json:"unit"`
	Node   string `json:"node"`
	Serial string `json:"serial"` // of the certificate that was shown; the key counts as long as that
	Key    []byte `json:"key"`    // wire.ReportKeySize bytes
}

// CAList has the CAs of the unit, and what brokers do not count any more.
type CAList struct {
	Unit    string   `json:"unit"`
	CAs     [][]byte `json:"cas"`               // certificates in DER, the oldest first
	Signs   string   `json:"signs"`             // fingerprint of the one that certifies now
	Rev     uint64   `json:"rev,omitzero"`      // orders the lists; 0: the unit's first CA
	Refused []string `json:"refused,omitempty"` // brokers' keys: RefusedKey of each
}

// refusedDigits is the length of a refused key.
const refusedDigits = 32

// RefusedKey is how CAList names a key: 32 hexadecimal digits, the beginning of the SHA-256 of its SubjectPublicKeyInfo
// in DER.
func RefusedKey(spki []byte) string {
	sum := sha256.Sum256(spki)
	return hex.EncodeToString(sum[:refusedDigits/2])
}

// Broker is the address of a broker.
type Broker struct {
	URL  string `json:"url"`
	Name string `json:"name,omitempty"` // host name that its certificate must have; "": the URL's host
}

// Refusal is the body of an answer with an error status.
type Refusal struct {
	Error *wire.Error `json:"error"`
}

// strict are the options for decoding.
var strict = json.JoinOptions(json.RejectUnknownMembers(true))

// decode decodes one message of at most limit bytes. The error is a *wire.Error that contains no input.
func decode(data []byte, limit int, m any) error {
	if len(data) > limit {
		return wire.New(wire.CodeTooLarge, "", fmt.Sprintf("more than %d bytes", limit))
	}
	if err := wire.Unmarshal(data, m, strict); err != nil {
		return redacted(err)
	}
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return wire.New(wire.CodeBadValue, "", "an object is expected")
	}
	return nil
}

// redacted returns an error of the JSON library without any part of the input, which may be a secret.
func redacted(err error) error {
	e := wire.AsError(err)
	if e.Code != wire.CodeBadValue { // with a bad value, the path has field names of this package only
		e.Path = ""
	}
	return wire.New(e.Code, e.Path, wire.Meanings[e.Code])
}

// DecodeJoin decodes and checks a JoinRequest. The error is a *wire.Error that does not contain the secret.
func DecodeJoin(data []byte) (*JoinRequest, error) {
	var r JoinRequest
	if err := decode(data, MaxRequest, &r); err != nil {
		return nil, err
	}
	if !wire.ValidName(r.Node) {
		return nil, wire.New(wire.CodeBadValue, "/node", "not a node ID")
	}
	if _, err := r.SecretBytes(); err != nil {
		return nil, err
	}
	if len(r.CSR) == 0 {
		return nil, wire.New(wire.CodeMissing, "/csr", "no certificate request")
	}
	return &r, nil
}

// DecodeRenew decodes and checks a RenewRequest. The error is a *wire.Error.
func DecodeRenew(data []byte) (*RenewRequest, error) {
	var r RenewRequest
	if err := decode(data, MaxRequest, &r); err != nil {
		return nil, err
	}
	if len(r.CSR) == 0 {
		return nil, wire.New(wire.CodeMissing, "/csr", "no certificate request")
	}
	return &r, nil
}

// DecodeAdmission decodes and checks an Admission, but not its certificates, which the caller has to verify. The error
// is a *wire.Error.
func DecodeAdmission(data []byte) (*Admission, error) {
	var a Admission
	if err := decode(data, MaxAnswer, &a); err != nil {
		return nil, err
	}
	switch {
	case !wire.ValidName(a.Unit):
		return nil, wire.New(wire.CodeBadValue, "/unit", "not a unit name")
	case !wire.ValidName(a.Node):
		return nil, wire.New(wire.CodeBadValue, "/node", "not a node ID")
	case len(a.Certificate) == 0:
		return nil, wire.New(wire.CodeMissing, "/certificate", "no certificate")
	case len(a.CA) == 0:
		return nil, wire.New(wire.CodeMissing, "/ca", "no CA certificate")
	case len(a.Floor.Kinds) > maxKinds:
		return nil, wire.New(wire.CodeTooLarge, "/floor/kinds", fmt.Sprintf("more than %d", maxKinds))
	case len(a.Brokers) == 0 || len(a.Brokers) > maxBrokers:
		return nil, wire.New(wire.CodeBadValue, "/brokers", fmt.Sprintf("not 1 to %d brokers", maxBrokers))
	}
	if err := checkKeys(a.UnitKeys); err != nil {
		return nil, err
	}
	for kind, s := range a.Floor.Kinds {
		if !wire.ValidName(string(kind)) || s.Epoch == 0 || s.Rev == 0 {
			return nil, wire.New(wire.CodeBadValue, "/floor/kinds", "not the place of a kind's document")
		}
	}
	for i, b := range a.Brokers {
		if b.URL == "" || len(b.URL) > maxURL || len(b.Name) > maxURL {
			return nil, wire.New(wire.CodeBadValue, fmt.Sprintf("/brokers/%d", i), "not the URL of a broker")
		}
	}
	return &a, nil
}

// checkKeys returns an error unless there are 1 to maxKeys Ed25519 keys with IDs.
func checkKeys(keys []wire.Key) error {
	if len(keys) == 0 || len(keys) > maxKeys {
		return wire.New(wire.CodeBadValue, "/unitKeys", fmt.Sprintf("not 1 to %d keys", maxKeys))
	}
	for i, k := range keys {
		if len(k.Ed25519) != 32 || !wire.ValidName(k.ID) {
			return wire.New(wire.CodeBadValue, fmt.Sprintf("/unitKeys/%d", i), "not an Ed25519 key with an ID")
		}
	}
	return nil
}

// DecodeKeys decodes and checks a KeyList. The error is a *wire.Error.
func DecodeKeys(data []byte) (*KeyList, error) {
	var l KeyList
	if err := decode(data, MaxAnswer, &l); err != nil {
		return nil, err
	}
	if !wire.ValidName(l.Unit) {
		return nil, wire.New(wire.CodeBadValue, "/unit", "not a unit name")
	}
	if err := checkKeys(l.UnitKeys); err != nil {
		return nil, err
	}
	return &l, nil
}

// DecodeCAs decodes and checks a CAList, but not its certificates, which the caller has to verify. The error is a
// *wire.Error.
func DecodeCAs(data []byte) (*CAList, error) {
	var l CAList
	if err := decode(data, MaxAnswer, &l); err != nil {
		return nil, err
	}
	switch {
	case !wire.ValidName(l.Unit):
		return nil, wire.New(wire.CodeBadValue, "/unit", "not a unit name")
	case len(l.CAs) == 0 || len(l.CAs) > maxCAs:
		return nil, wire.New(wire.CodeBadValue, "/cas", fmt.Sprintf("not 1 to %d CAs", maxCAs))
	case len(l.Refused) > maxRefused:
		return nil, wire.New(wire.CodeTooLarge, "/refused", fmt.Sprintf("more than %d", maxRefused))
	}
	for i, k := range l.Refused {
		if b, err := hex.DecodeString(k); err != nil || 2*len(b) != refusedDigits {
			return nil, wire.New(wire.CodeBadValue, fmt.Sprintf("/refused/%d", i), "not 32 hexadecimal digits")
		}
	}
	return &l, nil
}

// DecodeReportKey decodes and checks a ReportKey. The error is a *wire.Error.
func DecodeReportKey(data []byte) (*ReportKey, error) {
	var k ReportKey
	if err := decode(data, MaxAnswer, &k); err != nil {
		return nil, err
	}
	switch {
	case !wire.ValidName(k.Unit) || !wire.ValidName(k.Node):
		return nil, wire.New(wire.CodeBadValue, "", "not the names of a unit and a node")
	case len(k.Key) != wire.ReportKeySize:
		return nil, wire.New(wire.CodeBadValue, "/key", fmt.Sprintf("not %d bytes", wire.ReportKeySize))
	}
	return &k, nil
}

// DecodeRefusal returns the error in the body of a refusal; nil if the body has none.
func DecodeRefusal(data []byte) *wire.Error {
	var r Refusal
	if len(data) > MaxAnswer || json.Unmarshal(data, &r) != nil || r.Error == nil || r.Error.Code == "" {
		return nil
	}
	return wire.New(r.Error.Code, r.Error.Path, r.Error.Message)
}

// Encode returns one of the messages as JSON. Equal messages give equal bytes.
func Encode[M JoinRequest | RenewRequest | Admission | KeyList | CAList | ReportKey | Refusal](m *M) ([]byte, error) {
	b, err := json.Marshal(m, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b, nil
}
