// Package imds knows where instance metadata services are, by which clouds tell a machine its secrets: whoever chooses
// what a machine connects to does not get it there.
//
//tandem:pure
package imds

import (
	"net/netip"
	"slices"
)

// Addresses of clouds' services of metadata that are not link-local. They lie in networks that anybody may use.
var services = []netip.Prefix{
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

// Behind returns the address that one leads to, without a zone: IPv4 that is written as IPv6, or behind a translator,
// as IPv4.
func Behind(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("") // no prefix contains an address with a zone
	if within(translated, ip) {
		b := ip.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return ip
}

// Serves reports whether an address that Behind returned is that of a service of metadata, and not link-local.
func Serves(ip netip.Addr) bool { return within(services, ip) }

func within(all []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(ip) })
}
