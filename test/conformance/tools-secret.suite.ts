/** No secret comes back from a server that echoes it, in any place or form (INV-S1, F29). */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { MASK } from '../../activities/scrubbing/scrubber.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { aCall, aConnection, observedArtifacts, type ToolServerHarness } from '../support/activities/tool-call.ts';
import { ENCODINGS } from '../support/canary/scan.ts';
import { type CallExchange, type RawServer, startRawServer } from '../support/servers/raw-server.ts';

/** Characters that every encoding changes. */
const TOKEN = 'canary/token+with="odd" %chars~123';
const CLIENT_SECRET = 'client-secret-canary-456';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const base64url = (text: string): string => Buffer.from(text).toString('base64url');

const FORMS: readonly string[] = [
  TOKEN,
  `Bearer ${TOKEN}`,
  CLIENT_SECRET,
  base64(TOKEN),
  base64url(TOKEN),
  base64(`x${TOKEN}`),
  base64(`xy${TOKEN}tail`),
  base64url(`id:${CLIENT_SECRET}`),
  encodeURIComponent(TOKEN),
  encodeURIComponent(TOKEN).toLowerCase(),
  new URLSearchParams({ t: TOKEN }).toString(),
  JSON.stringify({ t: TOKEN }),
  ...Object.values(ENCODINGS).map((encode) => encode(TOKEN)),
];

/** In which separators and case hide nothing. */
const LETTERS = FORMS.map(lettersOf);

/** What a reader of the text could decode the secrets from. */
function leaksIn(text: string): string[] {
  const readings = [
    text,
    decoded(text),
    decoded(text.replaceAll('+', ' ')),
    ...words(text).flatMap((word) => [Buffer.from(word, 'base64').toString('latin1'), ...shifted(word)]),
  ];
  const letters = lettersOf(text);
  return [
    ...readings.filter(
      (reading) =>
        reading.includes(TOKEN) ||
        reading.includes(CLIENT_SECRET) ||
        reading.includes(JSON.stringify(TOKEN).slice(1, -1)),
    ),
    ...LETTERS.filter((form) => letters.includes(form)),
  ];
}

function lettersOf(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9]/g, '').toLowerCase();
}

function decoded(text: string): string {
  return text.replaceAll(/(?:%[0-9a-f]{2})+/gi, (codes) =>
    Buffer.from(codes.replaceAll('%', ''), 'hex').toString('utf8'),
  );
}

function words(text: string): string[] {
  return text.match(/[\w+/=-]{8,}/g) ?? [];
}

function shifted(word: string): string[] {
  return [1, 2, 3].map((start) => Buffer.from(word.slice(start), 'base64').toString('latin1'));
}

export function secretSuite({ name, create }: ToolServerHarness): void {
  describe(`${name}: secrets that a server echoes (INV-S1, F29)`, () => {
    let server: RawServer;
    beforeEach(async () => void (server = await startRawServer({ era: 'modern' })));
    afterEach(async () => server.close());

    const connection = () =>
      aConnection({ url: server.url, accessToken: 'canary/token+with="odd"', secrets: [TOKEN, CLIENT_SECRET] });

    test('the control: each form is seen as a leak where nothing scrubs it', () => {
      for (const form of FORMS) expect(leaksIn(form)).not.toEqual([]);
    });

    test.each(FORMS.map((form, n) => [n, form] as const))(
      'form %i is gone from text, keys, structured content, links, resources, warnings and artifacts',
      async (_, form) => {
        const artifacts = observedArtifacts();
        server.become({
          era: 'modern',
          onCall: ({ result }) =>
            result({
              content: [
                { type: 'text', text: `you sent ${form} and I keep it` },
                {
                  type: 'resource_link',
                  uri: `https://x.test/?t=${form}`,
                  name: form,
                  description: form,
                  mimeType: form,
                },
                { type: 'resource', resource: { uri: form, text: form } },
                { type: 'resource', resource: { uri: 'a', blob: base64(`blob ${form} end`) } },
                { type: 'image', data: base64(`image ${form} end`), mimeType: 'image/png' },
                { type: form },
                { type: 'text', text: 'padding'.repeat(200) },
              ],
              structuredContent: { [form]: { deep: [form, `Basic ${form}`] } },
            }),
        });
        const ending = await create({ artifacts }).call(connection(), aCall({ resultBytes: 600 }));
        expect(ending.kind).toBe('executed');
        const texts = [
          JSON.stringify(ending),
          ...artifacts.stored.map(({ bytes, contentType }) => `${contentType} ${Buffer.from(bytes).toString('utf8')}`),
        ];
        expect(texts.flatMap(leaksIn)).toEqual([]);
        expect(texts.join()).toContain(MASK);
        // The image, the blob, and the whole result, in which they are references.
        expect(artifacts.stored).toHaveLength(3);
      },
    );

    test('in pieces it is gone from both: two parts of the content, a key and its value, the numbers of its bytes', async () => {
      const halves = [TOKEN, base64(TOKEN)].map((form) => [form.slice(0, 17), form.slice(17)] as const);
      server.become({
        era: 'modern',
        onCall: ({ result }) =>
          result({
            content: halves.flat().map((half) => ({ type: 'text', text: half })),
            structuredContent: { fields: Object.fromEntries(halves), bytes: [...Buffer.from(TOKEN)] },
          }),
      });
      const ending = await create().call(connection(), aCall());
      expect(ending.kind).toBe('executed');
      expect(leaksIn(JSON.stringify(ending))).toEqual([]);
      for (const half of halves.flat()) expect(JSON.stringify(ending)).not.toContain(half);
    });

    test.each([
      ['a refusal', ({ status }: CallExchange) => status(400, {}, `bad token ${TOKEN} ${base64(TOKEN)}`)],
      [
        'a JSON-RPC error',
        ({ error }: CallExchange) => error(-32_602, `bad ${encodeURIComponent(TOKEN)} ${CLIENT_SECRET}`),
      ],
      ['a fault', ({ error }: CallExchange) => error(-32_603, `bad ${TOKEN}`)],
      [
        'a missing scope',
        ({ status }: CallExchange) =>
          status(403, { 'www-authenticate': `Bearer error="insufficient_scope", scope="${CLIENT_SECRET}"` }),
      ],
    ])('the message of %s quotes the server without them (S1.6)', async (_, does) => {
      server.become({ era: 'modern', onCall: does });
      const ending = await create().call(connection(), aCall());
      expect(ending.kind).not.toBe('executed');
      expect(leaksIn(JSON.stringify(ending))).toEqual([]);
    });

    test('a tool list holds none, and a tool named like a secret is refused', async () => {
      const tool = (fields: object): object => ({ name: 'plain', inputSchema: { type: 'object' }, ...fields });
      server.become({
        era: 'modern',
        pages: [
          [
            tool({
              description: `use ${TOKEN}`,
              inputSchema: { type: 'object', description: base64(TOKEN) },
              annotations: { title: TOKEN },
            }),
            tool({ name: CLIENT_SECRET }),
          ],
        ],
      });
      const listing = await create().list(connection(), new AbortController().signal);
      expect(listing).toMatchObject({
        tools: [{ name: 'plain' }],
        refused: [{ name: MASK, reason: 'its name holds a secret' }],
      });
      expect(leaksIn(JSON.stringify(listing))).toEqual([]);
    });

    test('the error of a failed discovery holds none, in message, facts or causes', async () => {
      server.become({
        era: 'modern',
        intercept: (_, response, method) => {
          if (method !== 'tools/list') return false;
          response
            .writeHead(403, { 'www-authenticate': `Bearer error="insufficient_scope", scope="${CLIENT_SECRET}"` })
            .end(TOKEN);
          return true;
        },
      });
      const error: unknown = await create()
        .list(connection(), new AbortController().signal)
        .catch((thrown: unknown) => thrown);
      if (!(error instanceof CountersignError)) throw new Error('a CountersignError was expected', { cause: error });
      expect(error.code).toBe('TOOL_INSUFFICIENT_SCOPE');
      expect(
        leaksIn(`${error.message} ${JSON.stringify(error.facts)} ${String(error.stack)} ${String(error.cause)}`),
      ).toEqual([]);
    });
  });
}
