/** What every `MessageChannel` does (I-1, INV-S1): see `activities/notify/port.ts`. */
import { describe, expect, test } from '@jest/globals';
import type { Message, MessageChannel } from '../../activities/notify/port.ts';

/** What a receiver got, in the form that all channels have in common. */
export interface Delivered {
  /** By which a repetition is known; undefined if the channel has none. */
  readonly id: string | undefined;
  /** All that people and programs read. */
  readonly text: string;
  /** The first message that it follows. */
  readonly thread: string | undefined;
}

export interface ChannelHarness {
  readonly name: string;
  /** Of a channel without them, a repetition is a message of its own. */
  readonly knowsIds: boolean;
  readonly threads: boolean;
  create(): Promise<{
    readonly channel: MessageChannel;
    delivered(): Promise<readonly Delivered[]>;
    /** From now on the receiver answers so. */
    become(state: 'busy' | 'refusing' | 'gone' | 'well'): Promise<void>;
    /** Texts that no error may hold. */
    readonly hidden: readonly string[];
  }>;
}

const RUN = {
  namespace: 'default',
  workflowId: 'run-1',
  initiator: { id: 'ida', tenant: 'default', groups: [] },
  specHash: 'b'.repeat(64),
};

type Request = Message['requests'][number];

/** A message of one run. @param over the run and the event are those of every request */
export function message(
  over: Partial<Omit<Message, 'single'>> & Partial<NonNullable<Message['single']>> = {},
): Message {
  const { event = 'opened', run = RUN, requests = [request()], ...rest } = over;
  return {
    id: `msg_${'a'.repeat(64)}`,
    channel: 'it',
    single: { event, run },
    to: { ids: ['ann'], groups: ['ops'] },
    requests: requests.map((each) => ({ ...each, event, run })),
    repeated: false,
    ...rest,
  };
}

/** A message of several runs. */
export function digest(requests: Message['requests'], over: Partial<Message> = {}): Message {
  const { single: _, ...rest } = message(over);
  return { ...rest, requests };
}

export function request(over: Partial<Request> = {}): Request {
  return {
    event: 'opened',
    run: RUN,
    callId: 't1.c0',
    generation: 1,
    server: 'bank',
    tool: 'pay',
    arguments: '{"amount":5}',
    who: 'ann or group:ops',
    deadline: '2026-01-31T09:00:00.000Z',
    rules: ['organisation/rules/pay'],
    explain: ['Money leaves the house.'],
    url: 'https://approvals.example.com/runs/run-1',
    ...over,
  };
}

const HOSTILE = '<!channel> <https://evil.example|ok> *b* \r\nBcc: eve@evil.example\u202E\u0007';

export function channelSuite({ name, knowsIds, threads, create }: ChannelHarness): void {
  describe(`the notify port: ${name}`, () => {
    test('tells what waits, for whom, until when, and where to look', async () => {
      const { channel, delivered } = await create();
      await channel.send(message());
      const [{ text, id }] = await one(delivered);
      for (const part of [
        'bank',
        'pay',
        'amount',
        'run-1',
        't1.c0',
        '2026-01-31T09:00:00.000Z',
        'Money leaves the house.',
      ])
        expect(text).toContain(part);
      expect(text).toContain('https://approvals.example.com/runs/run-1');
      expect(id === undefined).toBe(!knowsIds);
    });

    test('F16: a repetition has the same id', async () => {
      if (!knowsIds) return;
      const { channel, delivered } = await create();
      await channel.send(message());
      await channel.send(message({ repeated: true }));
      expect(new Set((await delivered()).map(({ id }) => id)).size).toBe(1);
      await channel.send(message({ id: `msg_${'c'.repeat(64)}` }));
      expect(new Set((await delivered()).map(({ id }) => id)).size).toBe(2);
    });

    test('later messages follow the first', async () => {
      const { channel, delivered } = await create();
      const { thread } = await channel.send(message());
      expect(thread !== undefined).toBe(threads);
      if (thread === undefined) return;
      const closed = request({ closed: { status: 'approved', by: 'ben' } });
      const next = { event: 'closed', id: `msg_${'d'.repeat(64)}`, thread, requests: [closed] } as const;
      expect(await channel.send(message(next))).toEqual({ thread });
      expect((await delivered()).at(-1)).toMatchObject({ thread });
      expect((await delivered()).at(-1)?.text).toContain('approved by ben');
    });

    test('INV-S1: what models and servers wrote stays data', async () => {
      const { channel, delivered } = await create();
      const hostile = request({ tool: HOSTILE, arguments: HOSTILE, because: HOSTILE, explain: [HOSTILE] });
      await channel.send(message({ requests: [hostile] }));
      const [{ text }] = await one(delivered);
      for (const hidden of ['\u202E', '\u0007', '\nBcc:']) expect(text).not.toContain(hidden);
    });

    test.each([
      ['opened', /A call waits for a decision|request\.opened/, /27 calls wait for a decision|request\.opened/],
      ['reminder', /Reminder: a call still waits|request\.reminder/, /27 calls still wait|request\.reminder/],
      ['escalation', /Others may decide now|request\.escalation/, /27 calls wait, and others may|request\.escalation/],
      ['expiring', /The deadline is near|request\.expiring/, /27 calls wait, and their deadline|request\.expiring/],
      ['unknown', /Nobody knows whether a call ran|request\.unknown/, /27 calls may have run|request\.unknown/],
      ['closed', /A request is closed|request\.closed/, /27 requests are closed|request\.closed/],
    ] as const)('%s is told, of one request and of many', async (event, ofOne, ofMany) => {
      const { channel, delivered } = await create();
      const many = Array.from({ length: 20 }, (_, index) => request({ callId: `t1.c${index}` }));
      await channel.send(message({ event }));
      await channel.send(message({ event, requests: many, more: 7, id: `msg_${'e'.repeat(64)}` }));
      const texts = (await delivered()).map(({ text }) => text);
      expect(texts).toHaveLength(2);
      expect(texts[0]).toMatch(ofOne);
      expect(texts[1]).toMatch(ofMany);
      expect(texts[1]).toContain('t1.c11');
    });

    test('a digest tells of several runs, of each what happened', async () => {
      const { channel, delivered } = await create();
      const of = (workflowId: string) => ({ ...RUN, workflowId });
      const requests = [
        request({ run: of('run-7') }),
        request({ run: of('run-8') }),
        request({ run: of('run-9'), event: 'closed', closed: { status: 'approved', by: 'ben' } }),
      ];
      await channel.send(digest(requests.slice(0, 2), { more: 7 }));
      await channel.send(digest(requests, { id: `msg_${'f'.repeat(64)}`, more: 7 }));
      const [alike = '', mixed = ''] = (await delivered()).map(({ text }) => text);
      expect(alike).toMatch(/2 calls wait for a decision; and 7 more|"more":7.*requests\.digest/s);
      for (const run of ['run-7', 'run-8']) expect(alike).toContain(run);
      expect(mixed).toMatch(/2 calls wait for a decision; A request is closed; and 7 more|"event":"closed"/);
      expect(mixed).toMatch(/news: A call waits for a decision|"event":"opened"/);
      for (const part of ['run-7', 'run-8', 'run-9', 'approved', 'ben']) expect(mixed).toContain(part);
    });

    // In words to people, or as a field to programs.
    test.each([
      ['outcome', /about: say what became of the call|"about":"outcome"/],
      ['input', /about: the server asks questions|"about":"input"/],
      ['authorization', /about: the server wants another authorization|"about":"authorization"/],
    ] as const)('a request about %s says so', async (about, said) => {
      const { channel, delivered } = await create();
      await channel.send(message({ requests: [request({ about })] }));
      const [{ text }] = await one(delivered);
      expect(text).toMatch(said);
    });

    test.each([
      ['busy', 'MESSAGE_UNDELIVERED', true],
      ['gone', 'MESSAGE_UNDELIVERED', true],
      ['refusing', 'MESSAGE_REFUSED', false],
    ] as const)('a receiver that is %s: %s, and nothing secret in it', async (state, code, retryable) => {
      const { channel, delivered, become, hidden } = await create();
      await become(state);
      const error: unknown = await channel.send(message()).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code, traits: { retryable }, facts: { path: 'notify.channels.it' } });
      for (const text of hidden) expect(String(error)).not.toContain(text);
      if (state === 'gone') return;
      await become('well');
      await channel.send(message({ repeated: true }));
      expect(await delivered()).toHaveLength(1);
    });
  });
}

async function one(delivered: () => Promise<readonly Delivered[]>): Promise<readonly [Delivered]> {
  const [first, ...others] = await delivered();
  if (first === undefined || others.length > 0) throw new Error(`${others.length + 1} messages came, or none`);
  return [first];
}
