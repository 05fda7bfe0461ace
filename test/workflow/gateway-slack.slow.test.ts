/**
 * Buttons in messages of Slack, from the message that a worker posts to the run that is answered: a press counts for
 * the person whom the operator names, by the rule of the request, for what the message showed, once.
 *
 * One file, because all of it is one stack.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { GatewayConfigInput } from '../../contracts/schemas/gateway.ts';
import { gatewayParts } from '../../cli/session/gateway.ts';
import { Config } from '../../contracts/schemas/config.ts';
import type { PolicyInput } from '../../contracts/schemas/policy.ts';
import { LOOPBACK } from '../support/egress.ts';
import { SlackButton } from '../../contracts/schemas/notify-message.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { startTestGateway, startTestProvider, type TestProvider } from '../support/scenes/gateway-world.ts';
import { bodyOf, listenOnLoopback } from '../support/servers/loopback-server.ts';
import { type SlackServer, startSlackServer } from '../support/servers/slack-server.ts';
import { testKey } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { type BankWorld, startBank } from '../support/world/bank-world.ts';
import { factsOf } from '../support/world/run-record.ts';
import { openRequests, type World, type WorldOptions } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const SECRET = 'canary-signing-secret';
const TEAM = 'T024BE7LD';
const [ANN, BEN, CLEO] = ['U024ANN00', 'U024BEN00', 'U024CLEO0'];

let provider: TestProvider;
let slack: SlackServer;
/** Words that people got, by their address for them. */
let words: { readonly url: string; readonly body: Fields }[];
let hooks: Awaited<ReturnType<typeof listenOnLoopback>>;
let bank: BankWorld;
let gateway: Gateway;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  [provider, slack] = await Promise.all([startTestProvider(), startSlackServer()]);
  words = [];
  hooks = await listenOnLoopback((request, response) => {
    void bodyOf(request).then((text) => {
      const body: unknown = JSON.parse(text);
      if (isFields(body)) words.push({ url: request.url ?? '', body });
      response.end('ok');
    });
  });
  bank = await startBank(policyFor({ ids: ['ben'], groups: ['finance'] }));
  gateway = await startTestGateway(bank.world, provider, { config: { slack: slackConfig() } });
});
afterAll(async () => {
  await gateway.stop();
  for (const close of closing) await close();
  await bank.world.stop();
  await Promise.all([provider.close(), slack.close(), hooks.close()]);
});

function policyFor(approvers: { readonly ids: string[]; readonly groups: string[] }) {
  const chat = {
    kind: 'slack',
    token: slack.token,
    channel: 'C024BE91L',
    apiUrl: `${slack.origin}/api`,
    buttons: true,
  };
  return {
    notify: { page: 'https://approvals.example.com/runs/{run}', channels: { chat } },
    policy: { approvers, notify: [{ channel: 'chat' }] },
  } as NonNullable<WorldOptions['config']>;
}

function slackConfig(): NonNullable<GatewayConfigInput['slack']> {
  return {
    signingSecret: SECRET,
    team: TEAM,
    people: {
      [ANN ?? '']: { id: 'ann' },
      [BEN ?? '']: { id: 'ben' },
      [CLEO ?? '']: { id: 'cleo', groups: ['finance'] },
    },
    responseUrl: `${hooks.origin}/`,
  };
}

interface Asked {
  readonly run: RunHandle;
  readonly blocks: readonly Fields[];
  /** Value of a button of the message. */
  readonly value: string;
}

/** Starts a run, and returns it with what its message in Slack shows. */
async function asking(world: World, purpose: string, initiator = 'ann', policy: PolicyInput = {}): Promise<Asked> {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose } }] }, { text: 'done' }], {
    initiator: { id: initiator },
    policy,
  });
  await openRequests(run);
  return await until(
    () => {
      for (const { body } of slack.posts) {
        const blocks = Array.isArray(body['blocks']) ? body['blocks'].filter(isFields) : [];
        for (const { elements } of blocks.filter(({ type }) => type === 'actions')) {
          const [first] = Array.isArray(elements) ? elements.filter(isFields) : [];
          const value = first?.['value'];
          if (typeof value === 'string' && SlackButton.parse(JSON.parse(value)).run === run.runId)
            return { run, blocks, value };
        }
      }
      return undefined;
    },
    { what: 'a message with buttons' },
  );
}

interface Press {
  readonly user: string | undefined;
  readonly team?: string;
  readonly action?: string;
  readonly value: string;
  readonly responseUrl?: string;
  /** Blocks of the message. */
  readonly blocks?: readonly Fields[];
}

/** The body of a press as Slack sends it (docs.slack.dev, "block_actions payload"). */
function pressed({ user, team = TEAM, action = 'countersign_approve', value, ...over }: Press): {
  readonly body: string;
  readonly responsePath: string;
} {
  const responsePath = `/actions/${TEAM}/${randomUUID()}`;
  const payload = {
    type: 'block_actions',
    user: { id: user, username: 'somebody', name: 'somebody', team_id: team },
    api_app_id: 'A02',
    token: 'Shh_its_a_seekrit',
    container: { type: 'message', message_ts: '1700000000.000100', channel_id: 'C024BE91L', is_ephemeral: false },
    trigger_id: '12466734323.1395872398',
    team: { id: TEAM, domain: 'example' },
    enterprise: null,
    is_enterprise_install: false,
    channel: { id: 'C024BE91L', name: 'payments' },
    message: {
      type: 'message',
      ts: '1700000000.000100',
      text: 'A call waits for a decision',
      blocks: over.blocks ?? [],
    },
    state: { values: {} },
    response_url: over.responseUrl ?? `${hooks.origin}${responsePath}`,
    actions: [
      {
        type: 'button',
        action_id: action,
        block_id: 'xyz',
        text: { type: 'plain_text', text: 'Approve', emoji: false },
        value,
        style: 'primary',
        action_ts: '1700000001.123456',
      },
    ],
  };
  return { body: new URLSearchParams({ payload: JSON.stringify(payload) }).toString(), responsePath };
}

async function sent(
  to: Gateway,
  body: string,
  { secret = SECRET, at = Date.now() }: { readonly secret?: string; readonly at?: number } = {},
): Promise<{ readonly status: number; readonly text: string }> {
  const timestamp = String(Math.floor(at / 1_000));
  const signature = `v0=${createHmac('sha256', secret).update(`v0:${timestamp}:${body}`).digest('hex')}`;
  const response = await fetch(`${to.url}/v1/slack/actions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded',
      'x-slack-request-timestamp': timestamp,
      'x-slack-signature': signature,
    },
    body,
  });
  return { status: response.status, text: await response.text() };
}

/** Presses, and returns the words that the person got. */
async function press(to: Gateway, how: Press): Promise<string> {
  const { body, responsePath } = pressed(how);
  expect(await sent(to, body)).toEqual({ status: 200, text: '' });
  const isWords = (said: Fields): boolean => said['replace_original'] === false;
  const told = await until(() => words.find(({ url, body: said }) => url === responsePath && isWords(said)), {
    what: 'words',
  });
  expect(told.body).toMatchObject({ response_type: 'ephemeral' });
  return String(told.body['text']);
}

async function decisionsOf(run: RunHandle) {
  return factsOf(await run.ledger(), 'decision.accepted').map(({ decision, approver }) => [decision, approver.id]);
}

test('an approver approves by the button of the message, and the call runs', async () => {
  const { run, value, blocks } = await asking(bank.world, 'approved');
  expect(JSON.stringify(blocks)).toContain('{\\"purpose\\":\\"approved\\"}');
  expect(await press(gateway, { user: BEN, value, blocks })).toBe('Your approval counts. The call goes on.');
  await run.result();
  // Nobody needs the buttons any more; everything else of the message stays.
  const replaced = await until(
    () => words.find(({ body }) => body['replace_original'] === true && JSON.stringify(body).includes(run.runId)),
    { what: 'the message without buttons' },
  );
  const left = blocks.map((block) =>
    block['type'] === 'actions'
      ? { type: 'context', elements: [{ type: 'mrkdwn', text: `Approved by <@${BEN}>.` }] }
      : block,
  );
  expect(replaced.body).toEqual({ replace_original: true, text: 'A call waits for a decision', blocks: left });
  expect(await decisionsOf(run)).toEqual([['approve', 'ben']]);
});

test('a member of a group rejects, and the model is told so', async () => {
  const { run, value } = await asking(bank.world, 'rejected');
  const said = await press(gateway, { user: CLEO, action: 'countersign_reject', value });
  expect(said).toBe('Your rejection counts. The call does not run.');
  await run.result();
  expect(await decisionsOf(run)).toEqual([['reject', 'cleo']]);
  expect(factsOf(await run.ledger(), 'outcome').map(({ outcome }) => outcome)).toEqual(['rejected']);
});

test('who is not named, is of another workspace, or is not asked is refused in words', async () => {
  const { run, value } = await asking(bank.world, 'strangers');
  const refused = async (how: Omit<Press, 'value'>) => await press(gateway, { ...how, value });
  expect(await refused({ user: 'U0STRANGE' })).toMatch(/^Nothing was changed \(ACTION_FORBIDDEN\).*sign in/);
  expect(await refused({ user: BEN, team: 'T0OTHER00' })).toMatch(/ACTION_FORBIDDEN/);
  // She started the run, so she sees the request, and is not asked.
  expect(await refused({ user: ANN })).toMatch(/APPROVER_NOT_ENTITLED.*ann may not decide/);
  expect(await decisionsOf(run)).toEqual([]);
  await press(gateway, { user: BEN, action: 'countersign_reject', value });
  await run.result();
});

test('a forged, an old or an unsigned request changes nothing, and is answered to nobody', async () => {
  const { run, value } = await asking(bank.world, 'forged');
  const { body, responsePath } = pressed({ user: BEN, value });
  const coded = async (answer: ReturnType<typeof sent>) => {
    const { status, text } = await answer;
    return [status, (JSON.parse(text) as { code: string }).code];
  };
  expect(await coded(sent(gateway, body, { secret: 'guessed' }))).toEqual([403, 'SIGNATURE_INVALID']);
  expect(await coded(sent(gateway, body, { at: Date.now() - 301_000 }))).toEqual([403, 'SIGNATURE_EXPIRED']);
  const unsigned = await fetch(`${gateway.url}/v1/slack/actions`, { method: 'POST', body: new URLSearchParams(body) });
  expect(unsigned.status).toBe(403);
  // What Slack signed for one body is not good for another.
  expect(await press(gateway, { user: BEN, action: 'countersign_reject', value })).toContain('counts');
  await run.result();
  expect(await decisionsOf(run)).toEqual([['reject', 'ben']]);
  expect(words.filter(({ url }) => url === responsePath)).toEqual([]);
});

test('a press binds what the message showed, and nothing else', async () => {
  const { run, value } = await asking(bank.world, 'bound');
  const button = SlackButton.parse(JSON.parse(value));
  const other = JSON.stringify({ ...button, digest: '0'.repeat(64) });
  expect(await press(gateway, { user: BEN, value: other })).toMatch(/DIGEST_MISMATCH/);
  expect(await press(gateway, { user: BEN, value: 'not ours' })).toMatch(/USAGE/);
  expect(await press(gateway, { user: BEN, value: JSON.stringify({ ...button, run: 'no-such-run' }) })).toMatch(
    /RUN_NOT_FOUND/,
  );
  expect(await decisionsOf(run)).toEqual([]);
  expect(await press(gateway, { user: BEN, value })).toContain('counts');
  await run.result();
});

test('a button that brings arguments, or asks for anything but approval or rejection, changes nothing', async () => {
  const { run, value } = await asking(bank.world, 'widened');
  const button = SlackButton.parse(JSON.parse(value));
  for (const more of [{ arguments: { purpose: 'another' } }, { kind: 'edit' }, { kind: 'respond', text: 'done' }])
    expect(await press(gateway, { user: BEN, value: JSON.stringify({ ...button, ...more }) })).toMatch(/USAGE/);
  // No other action is one of this gateway, so nobody is told anything.
  const { body, responsePath } = pressed({ user: BEN, value, action: 'countersign_edit' });
  expect((await sent(gateway, body)).status).toBe(200);
  expect(await decisionsOf(run)).toEqual([]);
  expect(await press(gateway, { user: BEN, value })).toContain('counts');
  await run.result();
  expect(await decisionsOf(run)).toEqual([['approve', 'ben']]);
  expect(words.filter(({ url }) => url === responsePath)).toEqual([]);
  // What was shown is what ran.
  expect(bank.bank.callsFor('widened')).toHaveLength(1);
  expect(bank.bank.callsFor('another')).toEqual([]);
});

test('a genuine button under words of the bot gives whoever presses it no right', async () => {
  const { run, value } = await asking(bank.world, 'disguised');
  const section = (text: string): Fields => ({ type: 'section', text: { type: 'mrkdwn', text } });
  const button = { type: 'button', action_id: 'countersign_approve', value };
  const blocks = [section('Lunch?'), { type: 'actions', elements: [button] }];
  const refused = async (user: string | undefined) => await press(gateway, { user, value, blocks });
  expect(await refused('U0STRANGE')).toMatch(/ACTION_FORBIDDEN.*does not know who you are in Slack/);
  expect(await refused(ANN)).toMatch(/APPROVER_NOT_ENTITLED/);
  expect(await decisionsOf(run)).toEqual([]);
  await press(gateway, { user: BEN, action: 'countersign_reject', value });
  await run.result();
  expect(await decisionsOf(run)).toEqual([['reject', 'ben']]);
});

test('whoever sends what Slack did not sign is counted by address, and crowds nobody out', async () => {
  const limits = { requestsPerMinute: 3 };
  const strict = await startTestGateway(bank.world, provider, { config: { slack: slackConfig(), limits } });
  closing.push(async () => await strict.stop());
  const { run, value } = await asking(bank.world, 'crowded');
  const { body } = pressed({ user: BEN, value });
  const statuses: number[] = [];
  for (let times = 0; times < 5; times += 1) statuses.push((await sent(strict, body, { secret: 'guessed' })).status);
  expect(statuses).toEqual([403, 403, 403, 429, 429]);
  // From the same address.
  expect(await press(strict, { user: BEN, value })).toContain('counts');
  await run.result();
  for (let times = 0; times < 5; times += 1) expect((await sent(strict, body)).status).toBe(200);
});

test('a press that comes again counts once, and a later one is told who decided', async () => {
  const { run, value } = await asking(bank.world, 'twice');
  const { body, responsePath } = pressed({ user: BEN, value });
  for (let times = 0; times < 2; times += 1) expect((await sent(gateway, body)).status).toBe(200);
  const answers = () =>
    words.filter(({ url, body: said }) => url === responsePath && said['replace_original'] === false);
  await until(() => answers().length === 2, { what: 'both answers' });
  expect(answers().map(({ body: said }) => said['text'])).toEqual([
    'Your approval counts. The call goes on.',
    'Your approval counts. The call goes on.',
  ]);
  expect(await press(gateway, { user: CLEO, value })).toMatch(/^Nothing was changed/);
  await run.result();
  expect(await decisionsOf(run)).toEqual([['approve', 'ben']]);
});

test('an approver who presses when the run is over hears that, and not that others must approve', async () => {
  const { run, value } = await asking(bank.world, 'terminated');
  await bank.world.client.workflow.getHandle(run.runId).terminate('by an operator');
  await until(() => gateway.projection.run(run.runId)?.row.endedAt !== undefined, { what: 'the end to be seen' });
  expect(await press(gateway, { user: BEN, value })).toMatch(/^Nothing was changed \(RUN_CLOSED\)/);
});

test('words go to the address of Slack alone, whatever a request says', async () => {
  const { run, value } = await asking(bank.world, 'elsewhere');
  const asked: string[] = [];
  const elsewhere = await listenOnLoopback((request, response) => {
    asked.push(request.url ?? '');
    response.end();
  });
  closing.push(elsewhere.close);
  const { body } = pressed({ user: BEN, value, responseUrl: `${elsewhere.origin}/x` });
  expect((await sent(gateway, body)).status).toBe(200);
  await run.result();
  // Whoever comes later is answered later.
  expect(await press(gateway, { user: BEN, value })).toContain('Nothing was changed');
  expect(asked).toEqual([]);
});

test('a gateway of a configuration reaches Slack by the guarded way out, and nobody else', async () => {
  const config = Config.parse({ gateway: { slack: slackConfig() }, egress: LOOPBACK });
  const { askSlack, close } = await gatewayParts(config, 'temporal', bank.world.engine.directory);
  const elsewhere = await listenOnLoopback((_, response) => response.end());
  closing.push(elsewhere.close, close);
  const ask = async (origin: string) => await askSlack?.(`${origin}/actions`, { method: 'POST', body: '{}' });
  expect((await ask(hooks.origin))?.status).toBe(200);
  await expect(ask(elsewhere.origin)).rejects.toThrow();
  const plain = await gatewayParts(Config.parse({}), 'temporal', bank.world.engine.directory);
  expect(plain.askSlack).toBeUndefined();
});

test('without gateway.slack there is no such route, and a person without a tenant is a mistake', async () => {
  const plain = await startTestGateway(bank.world, provider);
  closing.push(async () => await plain.stop());
  expect((await sent(plain, 'payload=x')).status).toBe(404);
  const oidc = { issuer: provider.issuer, audience: 'x' };
  await expect(
    startTestGateway(bank.world, provider, { config: { slack: slackConfig(), oidc } }),
  ).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    facts: { path: `gateway.slack.people.${ANN}` },
  });
});

test('in trust mode signed the gateway signs for the person, and for nobody beyond its key', async () => {
  const key = testKey('gateway-1', { kind: 'service', iss: provider.issuer, groups: ['finance'], speaksForMany: true });
  const approvers = { ids: [`${provider.issuer}|ben`], groups: ['finance', 'root'] };
  const { world } = await startBank(
    { ...policyFor(approvers), taskQueue: 'signed' },
    { engine: bank.world.engine, trusted: [key], client: { signer: key.signer } },
  );
  const voice = { iss: provider.issuer, groups: ['finance'], tenants: ['default'] };
  const people = { [ANN ?? '']: { id: 'ann', groups: ['root'] }, [CLEO ?? '']: { id: 'cleo', groups: ['finance'] } };
  const signing = await startTestGateway(world, provider, {
    trust: { mode: 'signed', speaking: { signer: key.signer, voice } },
    config: { slack: { ...slackConfig(), people } },
  });
  closing.push(async () => {
    await signing.stop();
    await world.stop();
  });
  const { run, value } = await asking(world, 'signed', `${provider.issuer}|svc`);
  // The key does not speak for this group, so it does not count.
  expect(await press(signing, { user: ANN, value })).toMatch(/RUN_NOT_FOUND/);
  expect(await press(signing, { user: CLEO, value })).toContain('counts');
  await run.result();
  const [decided] = factsOf(await run.ledger(), 'decision.accepted');
  expect([decided?.approver.id, decided?.signature?.kid]).toEqual([`${provider.issuer}|cleo`, 'gateway-1']);
});

describe('two gateways', () => {
  const other = during(() => startTestGateway(bank.world, provider, { config: { slack: slackConfig() } }));

  /** Sends one press to both at the same time, as a proxy does that tries again at another gateway. */
  async function pressedAtBoth(how: Press): Promise<readonly string[]> {
    const { body, responsePath } = pressed(how);
    const answers = await Promise.all([sent(gateway, body), sent(other, body)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    const told = () =>
      words.filter(({ url, body: said }) => url === responsePath && said['replace_original'] === false);
    await until(() => told().length === 2, { what: 'the words of both' });
    return told().map(({ body: said }) => String(said['text']));
  }

  test('count a press that reaches both once, and tell the person the same', async () => {
    const { run, value } = await asking(bank.world, 'both');
    expect(await pressedAtBoth({ user: BEN, value })).toEqual([
      'Your approval counts. The call goes on.',
      'Your approval counts. The call goes on.',
    ]);
    await run.result();
    expect(await decisionsOf(run)).toEqual([['approve', 'ben']]);
    expect(bank.bank.callsFor('both')).toHaveLength(1);
  });

  test('take it for one voice where two must agree', async () => {
    const { run, value } = await asking(bank.world, 'voices', 'ann', {
      approvers: { ids: ['ben'], groups: ['finance'], need: 2 },
    });
    expect(await pressedAtBoth({ user: BEN, value })).toEqual([
      'Your approval counts. More people must agree.',
      'Your approval counts. More people must agree.',
    ]);
    expect(await decisionsOf(run)).toEqual([['approve', 'ben']]);
    expect(bank.bank.callsFor('voices')).toEqual([]);
    expect(await press(other, { user: CLEO, value })).toBe('Your approval counts. The call goes on.');
    await run.result();
    expect(await decisionsOf(run)).toEqual([
      ['approve', 'ben'],
      ['approve', 'cleo'],
    ]);
  });
});
