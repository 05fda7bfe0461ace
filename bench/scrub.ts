/**
 * `npx tsx bench/scrub.ts`: CPU of taking secrets out of one MiB, by kind of text. One JSON line per figure. Nothing is
 * asserted. Needs no Temporal and no server.
 */
import { randomBytes } from 'node:crypto';
import { createScrubber } from '../activities/scrubbing/scrubber.ts';

const MIB = 1_048_576;
const PASSES = 5;

const secret = (bytes: number): string => randomBytes(bytes).toString('base64url');
const jwt = [60, 400, 256].map(secret).join('.');
const scrub = createScrubber([
  jwt,
  `Bearer ${jwt}`,
  secret(32),
  secret(32),
  randomBytes(20).toString('hex'),
  secret(24),
]);

const ofSize = (piece: string): string => piece.repeat(Math.ceil(MIB / piece.length)).slice(0, MIB);
const prose = ofSize('The quick brown fox jumps over the lazy dog; it was seen at 10:42, near 5th street. ');
const records = Array.from({ length: 8_000 }, (_, id) => ({
  id,
  name: `item ${id}`,
  url: `https://example.com/a/${id}?q=1&b=2`,
  ok: true,
  note: 'plain words here, and more of them',
}));
const json = JSON.stringify(records);
const noise = randomBytes(MIB);

const KINDS: Readonly<Record<string, { readonly bytes: number; readonly clean: () => unknown }>> = {
  prose: ofText(prose),
  'JSON as text': ofText(json),
  'JSON as a value': { bytes: json.length, clean: () => scrub.value(records) },
  'text in base64': ofText(Buffer.from(prose).toString('base64').slice(0, MIB)),
  'random base64': ofText(noise.toString('base64').slice(0, MIB)),
  hexadecimal: ofText(noise.toString('hex').slice(0, MIB)),
  'JSON, percent-encoded': ofText(encodeURIComponent(json).slice(0, MIB)),
};

for (const [kind, { bytes, clean }] of Object.entries(KINDS)) {
  clean();
  const started = process.cpuUsage();
  for (let pass = 0; pass < PASSES; pass += 1) clean();
  const { user, system } = process.cpuUsage(started);
  const ms = ((user + system) / 1_000 / PASSES / bytes) * MIB;
  process.stdout.write(`${JSON.stringify({ figure: kind, unit: 'ms CPU per MiB', value: Number(ms.toFixed(1)) })}\n`);
}

function ofText(text: string): { bytes: number; clean: () => string } {
  return { bytes: text.length, clean: () => scrub.text(text) };
}
