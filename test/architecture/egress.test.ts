// Every request that leaves a worker goes the one guarded way (activities/egress): whatever else can send is named
// here, with its reason. The lint rule on the global `fetch` knows scopes, which text does not; this sees that the rule
// stands, and what it cannot see.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT, sourceFiles } from './source-tree.ts';

/** Where a request may begin. What clients and commands have to say they say to Temporal. */
const SENDING = ['activities', 'workers', 'client', 'gateway', 'cli'];

/** Path → why it may have a package that opens connections. An entry that is no longer needed fails too. */
const ALLOWED: Readonly<Record<string, string>> = {
  'activities/egress/address.ts': 'reads addresses (`isIP`)',
  'activities/egress/fetch.ts': 'is the guarded way: it judges what is connected to',
  'activities/notify/mail.ts': 'speaks SMTP, to the address that the guarded way has judged',
  'cli/dev/stack.ts': 'listens, and sends nothing',
  'client/artifacts/readers.ts': 'reads artifacts for backends, from the store that they name',
  'gateway/metrics/server.ts': 'listens, and sends nothing',
  'workers/dev-server.ts': 'listens, and sends nothing',
  'workers/health.ts': 'listens, and sends nothing',
};
/** Path → why it may use the fetch of Node. */
const UNGUARDED: Readonly<Record<string, string>> = {
  'workers/filesystem-server.ts': 'waits for the demo server that it has started itself, on this machine',
};

const NETWORK =
  /^(?:undici|nodemailer|node-fetch|axios|got|ky|superagent|ws|eventsource|(?:node:)?(?:https?|http2|net|tls|dgram|dns))(?:\/|$)/;

const files = sourceFiles().filter(({ folder }) => SENDING.includes(folder));

test('nothing but what is named has a package that opens connections', () => {
  const found = files.filter(({ imports }) =>
    imports.some(({ target, isRelative, isTypeOnly }) => !isRelative && !isTypeOnly && NETWORK.test(target)),
  );
  expect(found.map(({ path }) => path).toSorted()).toEqual(Object.keys(ALLOWED).toSorted());
  const packages = ['undici', 'node:http', 'https', 'node:net', 'axios', 'ws', 'node:dns/promises', 'undici/types'];
  expect(packages.filter((target) => !NETWORK.test(target))).toEqual([]);
});

test('the global fetch is forbidden by lint, and nobody goes around the rule', () => {
  interface Override {
    readonly files: readonly string[];
    readonly rules?: Readonly<Record<string, unknown>>;
  }
  // Sound: it is the configuration that oxlint reads.
  const { overrides } = JSON.parse(readFileSync(join(ROOT, '.oxlintrc.json'), 'utf8')) as { overrides: Override[] };
  const ofGlobals = overrides.filter(({ rules }) => rules !== undefined && 'no-restricted-globals' in rules);
  for (const folder of SENDING) {
    const own = ofGlobals.find(({ files: globs }) => globs.includes(`${folder}/**/*.ts`));
    expect(JSON.stringify(own?.rules)).toMatch(/"fetch".*"WebSocket".*"EventSource"/);
  }
  const off = ofGlobals.filter(({ rules }) => rules?.['no-restricted-globals'] === 'off').flatMap((each) => each.files);
  expect(off).toEqual(Object.keys(UNGUARDED));
  const around =
    /(?<!typeof )\bglobalThis(?:\.|\[')(?:fetch|WebSocket|EventSource)\b|createRemoteJWKSet|setGlobalDispatcher/;
  expect(files.filter(({ text }) => around.test(text)).map(({ path }) => path)).toEqual([]);
  expect(around.test('return globalThis.fetch(url)')).toBe(true);
});

/** Libraries that use the fetch of Node where they are given none: what must stand in the call. */
const GIVEN: readonly (readonly [call: RegExp, given: RegExp])[] = [
  [/\bcreate(?:OpenAI|Anthropic|OpenAICompatible)\(\{/g, /\bfetch: /],
  [/\b(?:\w+Request)\((?=[^)]*\b(?:issuer|metadata)\b)/g, /\[customFetch\]|\boptions\b/],
  [/\bnew (?:\w*Transport)\(/g, /\bfetch: /],
];
/** Of one call with its options. */
const CALL_CHARACTERS = 500;

test('libraries with a fetch of their own are given the guarded one', () => {
  let calls = 0;
  for (const { path, text } of files)
    for (const [call, given] of GIVEN)
      for (const match of text.matchAll(call)) {
        calls += 1;
        const following = text.slice(match.index, match.index + CALL_CHARACTERS);
        expect([path, match[0], given.test(following)]).toEqual([path, match[0], true]);
      }
  expect(calls).toBeGreaterThanOrEqual(7);
});
