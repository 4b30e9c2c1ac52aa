/** Example command lines, shown in the help of each command; a test parses all of them. */

const EVENTS = '--events run.jsonl';
const RELAY = '--relay ws://127.0.0.1:7777';

export const examples: Readonly<Record<string, string | readonly string[]>> = {
  host: [
    'nostrain host winter --people 3 --name Anna',
    'nostrain host winter --people 3 --corpus my.txt --relay wss://relay.example.org',
  ],
  join: 'nostrain join nostrain1… --name Bea',
  demo: 'nostrain demo gpt --quick',
  'run create': [
    `nostrain run create --model char-gpt --relay ws://10.0.0.2:7777`,
    'nostrain run create --base hf:owner/name --corpus my.txt --invite npub1…',
  ],
  'run announce': 'nostrain run announce naddr1… --dry',
  'run fork': 'nostrain run fork naddr1… --at 12 --inner-steps 40',
  'run inspect': 'nostrain run inspect friends.run.json',
  'run list': `nostrain run list ${RELAY}`,
  'run join': 'nostrain run join naddr1… --dir alice',
  'run leave': 'nostrain run leave naddr1…',
  'run invite': 'nostrain run invite naddr1… npub1…',
  'run-training': [
    'nostrain run-training --model char-gpt --run us --relay ws://10.0.0.2:7777 \\\n' +
      '  --sync strict:3 --shard 1/3',
    'nostrain run-training --settings us.json --base hf:owner/name --corpus my.txt',
  ],
  relay: 'nostrain relay --host 0.0.0.0 --store events',
  'relays check': 'nostrain relays check wss://relay.example.org',
  'relays find': 'nostrain relays find --relay wss://relay.example.org',
  'handler publish':
    `nostrain handler publish --page https://page.example.org/ ${RELAY} \\\n` +
    '    --key-file program.key',
  'corpus nostr': `nostrain corpus nostr --authors npub1… --kinds 1,30023 ${RELAY}`,
  'corpus fetch': `nostrain corpus fetch notes.json ${RELAY}`,
  plan: 'nostrain plan --model char-gpt --workers 4 --round-seconds 60',
  'witness who': 'nostrain witness who --spec naddr1…',
  'witness inspect': 'nostrain witness inspect --keys 1000 --hostile 0.2 -k 64',
  serve: `nostrain serve --token-file token ${RELAY}`,
  'train post-task': `nostrain train post-task --spec run.json ${RELAY}`,
  'train list-runs': `nostrain train list-runs ${RELAY}`,
  'train get-run': `nostrain train get-run --run naddr1… ${RELAY}`,
  'train get-receipt': `nostrain train get-receipt --run naddr1… ${RELAY}`,
  'train enroll-trainer':
    'nostrain train enroll-trainer --run naddr1… ' + `--trainer npub1… ${RELAY}`,
  'train submit-gradient':
    'nostrain train submit-gradient --run naddr1… ' + `--event event.json ${RELAY}`,
  'train decide-round': `nostrain train decide-round --run naddr1… --round 3 ${RELAY}`,
  'train finalize-round':
    'nostrain train finalize-round --run naddr1… ' + `--event vote.json ${RELAY}`,
  'train challenge-commitment':
    'nostrain train challenge-commitment --run naddr1… ' + `--round 3 --trainer npub1… ${RELAY}`,
  'train install-sealed-manifest':
    'nostrain train install-sealed-manifest --reference tee://HASH ' +
    `--manifest sealed/sealed.json ${RELAY}`,
  'train get-sealed-manifest': `nostrain train get-sealed-manifest --reference tee://HASH ${RELAY}`,
  'shard key': 'nostrain shard key > alice.json',
  'shard seal': 'nostrain shard seal notes.txt --to alice.json --to bob.json --shards 2 -o sealed',
  'shard open': 'nostrain shard open sealed -o mine.txt',
  'shard verify': 'nostrain shard verify sealed',
  'shard list': 'nostrain shard list sealed',
  'attest inspect': 'nostrain attest inspect evidence.json',
  'attest verify':
    'nostrain attest verify evidence.json --vendor amd-sev-snp --at 2026-11-24T12:00Z',
  keygen: 'nostrain keygen -o alice.key',
  whoami: 'nostrain whoami',
  replay: `nostrain replay ${EVENTS}`,
  archive: `nostrain archive --run naddr1… ${RELAY} --out run.jsonl`,
  'checkpoint pack':
    'nostrain checkpoint pack friends.safetensors --out friends.chunks --stripe 4/6',
  'checkpoint verify': 'nostrain checkpoint verify friends.chunks',
  'checkpoint unpack': 'nostrain checkpoint unpack friends.chunks --out friends.safetensors',
  'checkpoint list': 'nostrain checkpoint list',
  'checkpoint fetch':
    'nostrain checkpoint fetch https://holder.example.org/manifest.json ' +
    '--from https://blossom.example.org --out friends.chunks',
  'checkpoint seed': 'nostrain checkpoint seed friends.chunks --host 0.0.0.0 --rate 10000000',
  'checkpoint push': 'nostrain checkpoint push friends.chunks --to https://blossom.example.org',
  scores: `nostrain scores ${EVENTS}`,
  receipt: `nostrain receipt ${EVENTS} --sign -o receipt.json`,
  challenge: 'nostrain challenge --run naddr1… --round 12 --worker npub1…',
  explain: [
    'nostrain explain winter --round 12',
    `nostrain explain ${EVENTS} --round 12 --worker npub1…`,
  ],
  runs: 'nostrain runs',
  show: 'nostrain show friends --html friends.html',
  watch: `nostrain watch naddr1… ${RELAY}`,
  page: `nostrain page naddr1… ${RELAY}`,
  clean: 'nostrain clean --older-than 30',
  'model inspect': 'nostrain model inspect SmolLM2-135M-Instruct.Q4_1.gguf',
  'tiers export': 'nostrain tiers export --src friends-model --tiers 1 2',
  'tiers inspect': 'nostrain tiers inspect friends-model --tier 1',
  'model export': 'nostrain model export friends --gguf friends.gguf',
  sample: 'nostrain sample friends --prompt "To be"',
  'stake snapshot': 'nostrain stake snapshot --from file --list stakes.txt -o stakes.json',
  'stake verify': 'nostrain stake verify stakes.json --rpc https://rpc.example.org',
  'stake show': 'nostrain stake show stakes.json',
  'stake deploy': 'nostrain stake deploy --rpc http://127.0.0.1:8545',
  'stake bond': 'nostrain stake bond npub1… 1000000000000000000 --contract 0x…',
  'stake exit': 'nostrain stake exit npub1… --contract 0x…',
  'stake withdraw': 'nostrain stake withdraw npub1… --contract 0x…',
  'stake slash': 'nostrain stake slash --contract 0x… --events run.ndjson',
  'stake link': 'nostrain stake link --run moss --account-key id.json -o links.json',
  'directory find': 'nostrain directory find 9f86d0… --directory wss://relay.example.org',
  'directory attest':
    'nostrain directory attest npub1… --region europe --relay wss://relay.example.org',
  'placement check': 'nostrain placement check placement.toml holders.toml',
  doctor: `nostrain doctor ${RELAY}`,
  completion: 'nostrain completion bash > ~/.local/share/bash-completion/completions/nostrain',
  'train-local': 'nostrain train-local state.json data.json --steps 100 -o next.json',
  'derive-pubkey': 'nostrain derive-pubkey nsec1…',
  'init-state': 'nostrain init-state --features 3 -o state.json',
  'hash-state': 'nostrain hash-state state.json',
  'publish-event': `nostrain publish-event event.json ${RELAY}`,
  'collect-events': `nostrain collect-events ${RELAY} --run friends --round 0`,
  'aggregate-round': `nostrain aggregate-round --run friends --round 0 ${RELAY} -o delta.json`,
  'discover-workers': `nostrain discover-workers ${RELAY} --run friends`,
  'discover-checkpoints': `nostrain discover-checkpoints ${RELAY} --run friends`,
  'convert-state': 'nostrain convert-state state.json -o state.safetensors',
  'encode-delta': 'nostrain encode-delta before.json after.json -o payload.json',
  'decode-payload': 'nostrain decode-payload payload.json',
  'apply-payload': 'nostrain apply-payload before.json payload.json -o after.json',
  'aggregate-payloads': 'nostrain aggregate-payloads alice.json bob.json -o delta.json',
  'outer-step': 'nostrain outer-step state.json delta.json -o next.json',
  'build-event':
    'nostrain build-event payload.json --run friends --round 0 --model DIGEST ' +
    '--sec-key nsec1… -o event.json',
  'build-heartbeat':
    'nostrain build-heartbeat --run friends --round 0 --sec-key nsec1… -o heartbeat.json',
  'build-checkpoint': 'nostrain build-checkpoint checkpoint.json --sec-key nsec1… -o event.json',
  'inspect-event': 'nostrain inspect-event event.json',
};

/** Returns the examples of a command by its path. */
export const examplesOf = (path: string): readonly string[] => [examples[path] ?? []].flat();
