package publisher

import (
	"errors"
	"slices"
	"strings"
	"time"

	"tandem.internal/shared/unitconfig"
	"tandem.internal/shared/wire"
)

// Release is a version of something on a node that is updated as a whole.
type Release struct {
	Name    string // of the component; of the agent, AgentName
	Version string
}

// AgentName is what a signature calls the agent.
const AgentName = "tandem-node"

// Comment is how the trusted comment of a signature of the release begins.
func (r Release) Comment() string { return r.Name + " " + r.Version }

// Release is what a signature says that the file is: the first two words of its trusted comment. It is the publisher's
// word where Keys.Check found nothing wrong. A signature that says nothing of the kind yields whatever stands there.
func (s Signature) Release() (r Release) {
	if words := strings.Fields(s.comment); len(words) >= 2 {
		r = Release{words[0], words[1]}
	}
	return r
}

// Names says why a signature is not one of a release; nil: its trusted comment begins with that. It is not verified.
func (s Signature) Names(r Release) error {
	if s.Release() == r {
		return nil
	}
	return errors.New("its trusted comment does not begin with " + wire.Plain(r.Comment(), 200) + ", but with " +
		wire.Plain(s.Release().Comment(), 200))
}

// ContainerWord is the word of a trusted comment that says that the file is part of an image: it counts in containers
// alone. Agents before it pass the word over.
const ContainerWord = "for:container"

// ForContainers reports whether the signature has that word.
func (s Signature) ForContainers() bool {
	return slices.Contains(strings.Fields(s.comment), ContainerWord)
}

// expiry opens the word of a trusted comment that says until when the signature brings a file to nodes, as RFC 3339 has
// it. Agents before it pass the word over.
const expiry = "expires:"

// Expiry is that word for a time.
func Expiry(t time.Time) string { return expiry + t.UTC().Format(time.RFC3339) }

// parseExpiry finds the time in a trusted comment; zero: there is none.
func parseExpiry(comment string) (at time.Time, err error) {
	for _, word := range strings.Fields(comment) {
		text, ok := strings.CutPrefix(word, expiry)
		if !ok {
			continue
		}
		if !at.IsZero() {
			return at, errors.New("the trusted comment has two times of expiry")
		}
		if at, err = time.Parse(time.RFC3339, text); err != nil || at.IsZero() {
			return at, errors.New("in the trusted comment, " + expiry + " is not followed by a time such as " +
				"2027-01-31T00:00:00Z")
		}
	}
	return at, nil
}

// floorWord opens the word of the trusted comment of a release of the agent that says which version is the lowest that
// nodes put in force after it. Agents before it pass the word over.
const floorWord = "floor:"

// FloorWord is that word for a version.
func FloorWord(version string) string { return floorWord + version }

// parseFloor finds the floor in a trusted comment; "": there is none, or it is of something else than the agent.
func parseFloor(comment string) (floor string, err error) {
	words := strings.Fields(comment)
	if len(words) < 2 || words[0] != AgentName {
		return "", nil
	}
	for _, word := range words[2:] {
		version, ok := strings.CutPrefix(word, floorWord)
		if !ok {
			continue
		}
		if floor != "" {
			return "", errors.New("the trusted comment has two floors")
		}
		c, err := unitconfig.Compare(words[1], version)
		if err != nil {
			return "", errors.New("in the trusted comment, " + floorWord + " does not stand between two versions of " +
				"three numbers, such as tandem-node 1.4.0 floor:1.2.0")
		}
		if c < 0 {
			return "", errors.New("in the trusted comment, the floor is above the version itself")
		}
		floor = version
	}
	return floor, nil
}

// Floor is the lowest version of the agent that the publisher wants to be put in force on nodes which have seen this
// signature; "": any. It is the publisher's word where Keys.Check found nothing wrong.
func (s Signature) Floor() string { return s.floor }

// BelowFloor says why a version of the agent is not put in force any more; nil: it may be. A floor of "" is none.
func BelowFloor(version, floor string) *wire.Error {
	if floor == "" {
		return nil
	}
	if c, err := unitconfig.Compare(version, floor); err == nil && c >= 0 {
		return nil
	}
	return wire.New(wire.CodeBelowFloor, "", "version "+wire.Plain(version, 100)+" is below "+floor+", the lowest "+
		"that this node tries: its publisher has signed that, unless the node's own setting --floor says another")
}

// HigherFloor is the higher one of two floors, each of which may be "".
func HigherFloor(a, b string) string {
	if c, err := unitconfig.Compare(a, b); b == "" || err == nil && c >= 0 {
		return a
	}
	return b
}

// Expires is the time after which the signature brings the file to no node that has not put it in force before; zero:
// none. It is the publisher's word where Keys.Check found nothing wrong.
func (s Signature) Expires() time.Time { return s.expires }

// Judge says why a file is not one that the owner of a key has signed; nil: it is. text is its signature, "" if it has
// none; digest that of its content, of NewHash; nil: it is judged as far as can be without. The error's path is "".
func (ks Keys) Judge(text string, digest []byte) *wire.Error {
	_, err := ks.judge(text, digest)
	return err
}

// JudgeRelease is Judge for a file that updates something; it is demanded that the signature names the release.
func (ks Keys) JudgeRelease(r Release, text string, digest []byte) *wire.Error {
	sig, err := ks.judge(text, digest)
	if err == nil {
		if no := sig.Names(r); no != nil {
			return ks.refuse(no.Error())
		}
		if sig.ForContainers() {
			return ks.refuse("it is for containers alone (" + ContainerWord + ")")
		}
	}
	return err
}

func (ks Keys) judge(text string, digest []byte) (sig Signature, _ *wire.Error) {
	if text == "" {
		return sig, SignedBy("", ks.IDs())
	}
	sig, err := Parse(text)
	if err != nil {
		return sig, ks.refuse(err.Error())
	}
	if err := SignedBy(sig.id, ks.IDs()); err != nil {
		return sig, err
	}
	if digest == nil {
		err = ks.Check(sig)
	} else {
		err = ks.Verify(sig, digest)
	}
	if err != nil {
		return sig, ks.refuse(err.Error())
	}
	return sig, nil
}

func (ks Keys) refuse(why string) *wire.Error {
	return unpublished(wire.CodeBadSignature, "its signature does not count: "+why, ks.IDs())
}

// Expired says why what has this signature is not put in force any more at this time; nil: it may be.
func (s Signature) Expired(now time.Time) *wire.Error {
	if s.expires.IsZero() || now.Before(s.expires) {
		return nil
	}
	return wire.New(wire.CodeExpired, "", "its publisher's signature counted until "+
		s.expires.UTC().Format(time.RFC3339)+", and nobody has renewed it")
}

// Expired is what Signature.Expired says of the text of a signature. One that is malformed does not expire.
func Expired(text string, now time.Time) *wire.Error {
	if !strings.Contains(text, expiry) {
		return nil
	}
	s, err := Parse(text)
	if err != nil {
		return nil
	}
	return s.Expired(now)
}

// SignedBy says what is wrong with a signer where a key with one of these IDs is demanded; "": there is no signature.
func SignedBy(signer ID, ids []ID) *wire.Error {
	switch {
	case signer == "":
		return unpublished(wire.CodeUnsigned, "it is not signed", ids)
	case !slices.Contains(ids, signer):
		return unpublished(wire.CodeUnknownKey, "it is signed with the key "+string(signer), ids)
	}
	return nil
}

func unpublished(code wire.Code, why string, ids []ID) *wire.Error {
	return wire.New(code, "", why+"; this node runs only what the owner of a publisher's key has signed: "+
		JoinIDs(ids, ", "))
}
