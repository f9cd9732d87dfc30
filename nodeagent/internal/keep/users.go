package keep

import (
	"fmt"
	"strconv"
	"strings"
)

// Users are the numbers of users, and of groups of the same numbers, that a keeper gives to slots: First is the group
// that all of them are in, and each of the others is for one slot. The zero Users are none.
type Users struct{ First, Last uint32 }

// Bounds of Users.
const (
	leastUser = 1000 // those below are the system's
	mostUsers = 16384
	maxPorts  = 256
	overflow  = 65534 // whom the kernel shows for those that are not mapped (user_namespaces(7))
)

// ParseUsers reads what --workload-users says: FIRST-LAST. "" is none.
func ParseUsers(text string) (u Users, err error) {
	if text == "" {
		return u, nil
	}
	first, last, _ := strings.Cut(text, "-")
	a, aerr := strconv.ParseUint(first, 10, 31)
	b, berr := strconv.ParseUint(last, 10, 31)
	u = Users{uint32(a), uint32(b)}
	switch {
	case aerr != nil || berr != nil || b <= a:
		return Users{}, fmt.Errorf("%.40q: the first and the last number of a range of users, as in 70000-74095", text)
	case a < leastUser:
		return Users{}, fmt.Errorf("%s: users below %d are the system's", u, leastUser)
	case b-a >= mostUsers:
		return Users{}, fmt.Errorf("%s: at most %d users", u, mostUsers)
	case a <= overflow+1 && b >= overflow:
		return Users{}, fmt.Errorf("%s: %d and %d stand for nobody", u, overflow, overflow+1)
	}
	return u, nil
}

// AllPorts is the Loopback of slots that may connect to everything there.
const AllPorts = "all"

// Loopback is what --workload-loopback says: AllPorts, or the ports of this machine's loopback addresses to which slots
// may connect, divided by commas; "": none.
type Loopback string

// Ports are those ports; all says that it is AllPorts.
func (l Loopback) Ports() (ports []uint16, all bool, err error) {
	if l == "" || l == AllPorts {
		return nil, l == AllPorts, nil
	}
	for text := range strings.SplitSeq(string(l), ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
		if err != nil || n == 0 {
			return nil, false, fmt.Errorf("%.40q: all, or ports divided by commas", string(l))
		}
		if ports = append(ports, uint16(n)); len(ports) > maxPorts {
			return nil, false, fmt.Errorf("at most %d ports", maxPorts)
		}
	}
	return ports, false, nil
}

// None says that no users are given.
func (u Users) None() bool { return u == Users{} }

// Has says whether a number is one of them.
func (u Users) Has(id uint32) bool { return !u.None() && u.First <= id && id <= u.Last }

// Group is the group of all slots.
func (u Users) Group() uint32 { return u.First }

func (u Users) String() string {
	if u.None() {
		return ""
	}
	return fmt.Sprintf("%d-%d", u.First, u.Last)
}
