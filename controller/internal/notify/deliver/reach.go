package deliver

import (
	"fmt"
	"net/netip"
	"slices"
)

// metadata is where clouds tell a machine its secrets, and which networks of receivers may lie around: those of its
// addresses that are not link-local.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle
	netip.MustParsePrefix("fd00:ec2::/32"),          // Amazon
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle
	netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),  // Akamai
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway
	netip.MustParsePrefix("fd00:100::100:200/128"),  // Alibaba
}

// translated has the networks behind which IPv6 leads to the IPv4 address in the last 32 bits (NAT64; RFC 6052, 2.1,
// and RFC 8215).
var translated = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48")}

// mayReach refuses addresses, as they are after names were looked up: those of no other host, and of the metadata of
// clouds. With local only this machine is left.
func mayReach(address string, local bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("") // no prefix contains an address with a zone
	to := ip
	if within(translated, ip) {
		b := ip.As16()
		to = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case to.IsUnspecified(), to.IsMulticast(), to.IsLinkLocalUnicast(), within(metadata, to):
		return fmt.Errorf("%s is no address of a receiver", ip)
	case local && !ip.IsLoopback():
		return fmt.Errorf("%s is another machine, and the address begins with http://", ip)
	}
	return nil
}

func within(all []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(ip) })
}
