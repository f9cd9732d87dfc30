package app

// Help describes the settings.
func (*Config) Help() map[string]string { return configHelp }

const keyHelp = "program that holds this node's private key as another user, unix:/PATH, the socket of tandem-key; " +
	"empty: the key is in the state directory"

// configHelp are the texts of --help, by the name of the setting.
var configHelp = map[string]string{
	"unit": "unit that this node belongs to (required, unless it has joined one)",
	"node": "ID of this node; empty: the one that it has joined as, or the host name",
	"type": "node type, nodeGroupSubject.codename in unit configurations (required)",
	"broker": "MQTT broker: tcp://, tls:// or unix:// URL; empty: the one that the controller named " +
		"when this node joined, else tcp://127.0.0.1:1883",
	"password": "password at the broker; the user name is node/ID",
	"controller": "the controller's join door, https://HOST:PORT, if it is not where this node has " +
		"joined any more: certificates are renewed there",
	"key":       keyHelp + "; a key that is still in the state directory moves there",
	"state-dir": "directory for config.json and the agent's own state; made if missing",
	"on-apply": "command to run when config.json has changed: words separated by white space, no shell " +
		"and no quoting. It finds TANDEM_MODE (apply, try, rollback, repair), TANDEM_CONFIG_FILE, TANDEM_VERSION " +
		"and TANDEM_PREVIOUS_VERSION in its environment, and succeeds with exit status 0",
	"on-apply-timeout": "time limit of the on-apply command; past it the command's process group is killed",
	"repair-drift": "write config.json again when somebody has altered or removed it, and run the on-apply command; " +
		"false: only report it",
	"max-priority":  "highest priority that this node takes; -1: any",
	"allowed-label": "label that this node takes; none: any",
	"partition":     "partition that alert rules may name, as name=path; none: not checked",
	"component": "part of the node that a program updates on trial (slots.md, Other components), as " +
		"name=command: words separated by white space",
	"attribute": "attribute to report with the node's information",
	"sample-period": "how often CPU, RAM, partitions and traffic are measured, for alerts and for the " +
		"node's health",
	"interface": "network interface whose traffic counts, or a pattern such as eth*; none: all but the " +
		"loopback",
	"textfile": "file for the textfile collector of node_exporter, such as " +
		"/var/lib/prometheus/node-exporter/tandem.prom, with what was measured last; none: it is not written",
	"on-indicator": "command that shows the link indicator, to drive a light: words separated by white " +
		"space. It finds TANDEM_INDICATOR (1 no address, 2 no broker, 3 no controller, 4 in contact, from 10 " +
		"errors) and TANDEM_INDICATOR_TEXT in its environment",
	"reboot-command": "command that restarts the machine, such as systemctl reboot; it finds TANDEM_REASON " +
		"and TANDEM_DETAIL in its environment. None: the agent never does",
	"watch-dir": "directory in which other programs ask to be watched: NAME.touch, a file that they " +
		"touch every 25 seconds, and NAME.pid, the number of a process that is to live; none: nobody is",
	"reset-time": "without a word from the controller for so long, restart the machine (0s: 168h; the " +
		"controller's setting comes first)",
	"fallback-time": "on trial: without a word from the controller for so long, go back to the slot before " +
		"(0s: 5m; likewise)",
	"test-time": "on trial: keep the slot after so long in good health (0s: 10m; likewise)",
	"deadline-time": "on trial: go back to the slot before, if it is not kept after running for so long " +
		"(0s: twice test and fallback time, at least 24h where an approval is needed; likewise)",
	"contact-time": "for how long a word from the controller counts as contact (0s: 2m30s; likewise)",
	"watchdog-time": "a loop of the agent, or a watched program, that stands still for so long hangs (0s: " +
		"1m; likewise, from the next start on)",
	"need-approval": "a slot on trial is kept only after somebody has approved of it, whatever the " +
		"controller's settings say",
	"workloads":          "run the workloads that the controller places on this node",
	"workload-window":    "a new version of an instance has to stay up for so long, or the one before comes back",
	"workload-grace":     "how long a process has to end after SIGTERM, before SIGKILL",
	"workload-status":    "how often iss_hook_status is run",
	"workload-reopen":    "how often iss_hook_reopenlogs is run",
	"workload-log-bytes": "size of one file of the output of a slot's process",
	"workload-log-files": "such files kept",
	"workload-group": "control group in which workloads get theirs, as /proc/PID/cgroup names groups " +
		"(processes.md, Constraints); empty: the agent's own",
	"workload-read":  "absolute path that workloads may read, with what is below it (hooks.md, Confinement)",
	"workload-write": "absolute path that workloads may also change, with what is below it; a device, say",
	"workload-users": "FIRST-LAST: users and groups, nobody else's, of which each workload slot gets one; none: " +
		"workloads have the agent's user. Unless the agent is root, tandem-keeper.service has to be there (hooks.md)",
	"workload-loopback": "with --workload-users: ports of this machine's loopback addresses to which workloads may " +
		"connect, divided by commas, or all; none: to none of them. tandem-keeper.service has --loopback for it",
	"container-runtime": "what runs services that are images (containers.md): auto: crun, else runc, if one is there " +
		"and has run a container; the path of one; none: nothing does",
	"confine": "how far workloads have to be confined at least: none, basic, files or landlock, with +user and +net " +
		"behind it for what --workload-users gives (hooks.md); a set is refused where that cannot be. They " +
		"are always confined as far as the kernel can",
	"unproved-resources": "take resources that come by plain HTTP from another machine without a SHA256 checksum: " +
		"they are whatever the network says (resources.md)",
	"publisher-key": "public key of minisign, or a file with such keys: what workloads run, and versions of the " +
		"agent and of components, are taken only if the owner of one has signed the files (publisher.md); none: " +
		"nobody has to sign. The launcher goes by it, too",
	"floor": "the lowest version of the agent that is tried here; empty: the highest floor that publishers have " +
		"signed of what was tried (publisher.md). Lower than that, it lets older versions in. The launcher goes by " +
		"it, too",
	"node-policy": "JSON file with what management policies choose this node by, and it chooses them by: its " +
		"properties, constraints, pattern (policies.md); read at the start",
	"fetch-rate":      "bytes a second of all downloads together; 0: no limit",
	"fetch-parallel":  "downloads at a time",
	"fetch-keep-free": "bytes that resources leave free on the file system",
	"peer-listen": "HOST:PORT where other nodes may fetch by BitTorrent what this node holds (only in the " +
		"full agent); none: nobody may",
	"peer":       "HOST:PORT of a node to fetch from by BitTorrent",
	"peer-allow": "address, or prefix such as 10.0.0.0/8, that may connect beside those of --peer",
	"peer-rate":  "bytes a second given to other nodes; 0: no limit",
	"decrypt-key": "file with the keys (age-keygen) that open what is released encrypted for this node (only in the " +
		"full agent; items.md); read at the start. Nobody but the agent's user may read it",
	"unit-key": "the unit's public key (Ed25519, base64), or a file that holds it; empty: trust the " +
		"first controller heard",
	"root-key": "public root key, or a file with such keys: lists of CAs and signing keys that its owner has signed " +
		"away from the unit are followed when no CA that the node believes is left there (security.md, The root " +
		"key); none: that which the controller told at the join door",
	"pin-keys": "learn another signing key only from a key that is believed already, or by hand, and " +
		"never by asking the controller at its join door: a node that missed a rotation, and every node when the " +
		"key is lost, then needs hands",
	"beat":          "how often to say that the node is alive, within a fifth at random",
	"event-limit":   "events kept until the controller has them; the oldest go first",
	"subscribe-qos": "MQTT QoS of subscriptions, 0 or 1; 0 suits NATS",
	"log-level":     "debug, info, warn or error",
}
