// The command of `tandem` that each page and button equals. A test reads the lines of this file and tries them.

// word is an argument as a shell takes it.
export const word = (v) => (/^[\w@%+=:,./-]+$/.test(v) ? v : `'${String(v).replaceAll("'", "'\\''")}'`);
const flag = (name, v) => (v ? ` --${name} ${word(v)}` : "");

// those are all nodes that a filter selects, if they are those that were found.
/** @param {{ [of: string]: any }} of */
const those = ({ q, expect, all }) => `--where ${word(q)}${flag("expect", expect)}${all ? " --yes-all-nodes" : ""}`;

export const cli = {
  unit: () => "tandem unit status",
  nodes: ({ q }) => `tandem nodes -- ${word(q)}`,
  node: ({ node }) => `tandem node ${word(node)}`,
  samples: ({ node }) => `tandem node samples ${word(node)}`,
  reboot: ({ node, reason }) => `tandem node reboot ${word(node)}${flag("reason", reason)}`,
  tryIt: ({ node, version }) => `tandem node try ${word(node)}${flag("version", version)}`,
  approve: ({ node, version }) => `tandem node approve ${word(node)}${flag("version", version)}`,
  revoke: ({ node, reason }) => `tandem node revoke ${word(node)}${flag("reason", reason)}`,
  rebootMany: ({ reason, ...of }) => `tandem node reboot ${those(of)}${flag("reason", reason)}`,
  tryMany: ({ version, ...of }) => `tandem node try ${those(of)}${flag("version", version)}`,
  approveMany: ({ version, ...of }) => `tandem node approve ${those(of)}${flag("version", version)}`,
  setMany: ({ name, value, ...of }) => `tandem property set ${those(of)} ${word(name)} ${word(value)}`,
  unsetMany: ({ name, ...of }) => `tandem property unset ${those(of)} ${word(name)}`,
  revokeMany: ({ reason, ...of }) => `tandem node revoke ${those(of)}${flag("reason", reason)}`,
  forget: ({ node }) => `tandem node forget ${word(node)}`,
  enroll: ({ node }) => `tandem node enroll ${word(node)}`,
  confirmConfig: () => "tandem config confirm",
  check: ({ kind, file }) => `tandem ${kind} check ${word(file)}`,
  apply: ({ kind, file, rollout = "" }) => `tandem ${kind} apply ${word(file)}${flag("rollout", rollout)}`,
  tryConfig: ({ file, within }) => `tandem config apply ${word(file)}${flag("try", within)}`,
  rollback: ({ kind, version, as }) => `tandem ${kind} rollback ${word(version)}${flag("as", as)}`,
  retry: ({ kind }) => `tandem ${kind} retry`,
  history: ({ kind }) => `tandem ${kind} history`,
  diff: ({ kind, from, to }) => `tandem ${kind} diff ${word(from)} ${word(to)}`,
  rollouts: () => "tandem rollout list",
  rollout: ({ id }) => `tandem rollout show ${word(id)}`,
  pause: ({ id, reason }) => `tandem rollout pause ${word(id)}${flag("reason", reason)}`,
  resume: ({ id }) => `tandem rollout resume ${word(id)}`,
  abort: ({ id }) => `tandem rollout abort ${word(id)}`,
  policies: () => "tandem policy list",
  policy: ({ policy }) => `tandem policy status ${word(policy)}`,
  enable: ({ policy }) => `tandem policy enable ${word(policy)}`,
  disable: ({ policy }) => `tandem policy disable ${word(policy)}`,
  slots: () => "tandem workload list",
  slot: ({ slot }) => `tandem workload why ${word(slot)}`,
  restart: ({ slot }) => `tandem workload restart ${word(slot)}`,
  stop: ({ slot }) => `tandem workload stop ${word(slot)}`,
  start: ({ slot }) => `tandem workload start ${word(slot)}`,
  logs: ({ slot }) => `tandem workload logs ${word(slot)} --tail 200`,
  items: () => "tandem item list",
  subjects: () => "tandem subject list",
  desired: () => "tandem desired show",
  plan: () => "tandem desired plan",
  applyPlan: () => "tandem desired apply",
  events: ({ node, type = "", follow = false }) => `tandem events${flag("node", node)}${flag("type", type)}${
    follow ? " --follow" : ""}`,
  alerts: () => "tandem alerts",
  health: ({ node }) => `tandem health ${word(node)}`,
  maintenance: ({ length, reason }) => `tandem unit maintenance --for ${word(length)}${flag("reason", reason)}`,
  endMaintenance: () => "tandem unit maintenance --end",
  keys: () => "tandem key show",
  cas: () => "tandem ca show",
  tokens: () => "tandem token list",
  revokeToken: ({ name }) => `tandem token revoke ${word(name)}`,
  verify: () => "tandem journal verify",
};
