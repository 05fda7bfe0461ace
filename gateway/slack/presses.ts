/**
 * Answers the press of a button in a message of Slack: who pressed it, what it binds, and words for that person.
 *
 * 1. A button carries no right. Slack says who pressed it, the operator says who that is, and then the same rule and
 *    the same way hold as for every answer by the gateway.
 * 2. A press counts once, however often it comes: its id is made of what Slack signed.
 * 3. What a press came to is told to the one person alone. What was decided, and by whom, is told to all who see the
 *    message: it takes the place of the buttons. Both go to addresses of Slack alone.
 * 4. Buttons are taken away for people's sake: one that stays, or comes back with another press, is as good as none.
 * 5. Slack hears that a press has come before the run does. If the gateway dies between the two, the press is lost, and
 *    nobody gets words: only the words say that an answer counts.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { jsonOf } from '../../client/ledger/files.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { GatewayConfig, SlackConfig } from '../../contracts/schemas/gateway.ts';
import { problemsOf } from '../../contracts/schemas/parse.ts';
import type { DecisionAck } from '../../contracts/schemas/request.ts';
import { SlackMember } from '../../contracts/schemas/channels.ts';
import { SLACK_ACTIONS, SlackButton } from '../../contracts/schemas/notify-message.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { visible } from '../../domain/text/escape.ts';
import { codedOf, detailOf, isUncertain, tooMany } from '../http/problem.ts';
import type { GatewayLog } from '../http/server.ts';
import type { AskProvider } from '../identity/keys.ts';
import type { Asker, People } from '../identity/person.ts';
import type { RunHandle } from '../../client/run/run-handle.ts';
import type { Answering, Complete } from '../inbox/answering.ts';

/** The part of Slack's payload that is read; it has more. */
const SlackPress = z.looseObject({
  type: z.literal('block_actions'),
  user: z.looseObject({ id: SlackMember, team_id: z.string().max(40).optional() }),
  team: z.looseObject({ id: z.string().max(40) }).nullish(),
  channel: z.looseObject({ id: z.string().max(40) }).nullish(),
  message: z
    .looseObject({
      ts: z.string().max(40).optional(),
      text: z.string().optional(),
      blocks: z.array(z.looseObject({})).max(50),
    })
    .optional(),
  /** Where words for the person alone are sent. */
  response_url: z.url({ protocol: /^https?$/ }).max(2_000),
  actions: z
    .array(
      z.looseObject({
        action_id: z.string().max(255),
        action_ts: z.string().max(40),
        value: z.string().max(2_000).optional(),
      }),
    )
    .min(1)
    .max(25),
});
type SlackPress = z.infer<typeof SlackPress>;

export interface PressParts {
  readonly config: SlackConfig;
  readonly oidc: GatewayConfig['oidc'];
  readonly people: Pick<People, 'personOf'>;
  readonly answering: Pick<Answering, 'answer'>;
  readonly askSlack: AskProvider;
  /** Hears of presses that are refused before the run is asked; `Answering` tells of all others. */
  readonly onRefusal: (kind: Kind, code: ErrorCode) => void;
  readonly log?: GatewayLog | undefined;
}

type Kind = keyof typeof SLACK_ACTIONS;

type Action = SlackPress['actions'][number];

const REPLY_MS = 10_000;
/** A press is one moment; the person's right to answer is asked for it anew. */
const PRESS_MS = 60_000;
/** Presses whose answer may be under way at a time. */
const MOST_UNDER_WAY = 200;

export class Presses {
  readonly #parts: PressParts;
  readonly #underWay = new Set<Promise<void>>();

  constructor(parts: PressParts) {
    this.#parts = parts;
  }

  /**
   * Takes a payload that Slack has signed. Slack waits for three seconds, and the run may need longer.
   * @throws CountersignError `RATE_LIMITED` if too many are under way; Slack tells the person that it failed
   */
  take(payload: string): void {
    const press = this.#read(payload);
    // Other buttons, such as a link of the same app, need no answer.
    const action = press?.actions.find(({ action_id: id }) => kindOf(id) !== undefined);
    if (press === undefined || action === undefined) return;
    if (this.#underWay.size >= MOST_UNDER_WAY) throw tooMany(`${MOST_UNDER_WAY} buttons of Slack at a time`);
    const done = this.#answer(press, action).finally(() => void this.#underWay.delete(done));
    this.#underWay.add(done);
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  async #answer(press: SlackPress, action: Action): Promise<void> {
    let words: string;
    let ack: DecisionAck | undefined;
    try {
      ack = await this.#decide(press, action);
      words = WORDS[ack.status];
    } catch (error) {
      words = refusalWords(codedOf(error));
    }
    const told = { response_type: 'ephemeral', replace_original: false, text: escaped(visible(words)) };
    await this.#reply(press.response_url, told);
    // While others must agree, they need the buttons.
    if (ack?.status !== 'approved' && ack?.status !== 'rejected') return;
    const decided = ack.status === 'approved' ? 'Approved' : 'Rejected';
    await this.#change(press, action, `${decided} by <@${press.user.id}>.`);
  }

  /** Puts words in the place of the buttons of a request, in the message as it was when one of them was pressed. */
  async #change({ message, response_url: url }: SlackPress, { value }: Action, words: string): Promise<void> {
    if (message === undefined) return;
    const told = { type: 'context', elements: [{ type: 'mrkdwn', text: words }] };
    const blocks = message.blocks.map((block) => (valuesOf(block).includes(value) ? told : block));
    await this.#reply(url, { replace_original: true, ...defined({ text: message.text }), blocks });
  }

  #read(payload: string): SlackPress | undefined {
    const given = jsonOf(payload);
    const press = SlackPress.safeParse(given);
    if (press.success) return press.data;
    // Slack has signed it, so an app or this release is not as the other expects. The content is a person's.
    const [first] = problemsOf(press.error, given);
    this.#parts.log?.warn('what Slack sent is not the press of a button that can be read', {
      reason: given === undefined ? 'no JSON' : `${first?.path ?? ''} ${first?.reason ?? ''}`.trim(),
    });
    return undefined;
  }

  async #decide(press: SlackPress, action: Action): Promise<DecisionAck> {
    const kind = kindOf(action.action_id) ?? 'reject';
    const { asker, button } = this.#known(press, action, kind);
    const { run, callId, digest, runId } = button;
    const said = { decisionId: decisionIdOf(press, action), digest, runId };
    const body =
      kind === 'approve'
        ? { kind, ...said }
        : { kind, ...said, reason: 'Rejected by a button in Slack, without a reason.' };
    const send = async (handle: RunHandle, decision: Complete<typeof body>) => await handle.decide(decision);
    return await this.#parts.answering.answer(asker, { run, callId }, body, send);
  }

  /** @throws CountersignError `ACTION_FORBIDDEN` for whoever is not named, `USAGE` for what is no button of ours */
  #known(press: SlackPress, action: Action, kind: Kind): { readonly asker: Asker; readonly button: SlackButton } {
    try {
      return { asker: this.#askerOf(press), button: readButton(action) };
    } catch (error) {
      this.#parts.onRefusal(kind, codedOf(error).code);
      throw error;
    }
  }

  /** @throws CountersignError `ACTION_FORBIDDEN` for whoever is not named */
  #askerOf({ user, team }: SlackPress): Asker {
    const { config, oidc, people } = this.#parts;
    // Ids of members are those of a workspace, and a shared channel has members of others.
    const isOurs = (user.team_id ?? team?.id) === config.team;
    const person = Object.hasOwn(config.people, user.id) ? config.people[user.id] : undefined;
    if (person === undefined || !isOurs)
      throw new CountersignError(
        'ACTION_FORBIDDEN',
        'This gateway does not know who you are in Slack (gateway.slack.people). Open the request and sign in.',
      );
    const { id, groups, tenant = oidc?.tenant } = person;
    return people.personOf({ id, groups, tenant, exp: (Date.now() + PRESS_MS) / 1_000 });
  }

  async #reply(url: string, said: Fields): Promise<void> {
    const { askSlack, config, log } = this.#parts;
    try {
      if (new URL(url).origin !== new URL(config.responseUrl).origin)
        throw new Error('the address is not one of Slack');
      const answer = await askSlack(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json; charset=utf-8' },
        body: JSON.stringify(said),
        signal: AbortSignal.timeout(REPLY_MS),
      });
      await answer.body?.cancel();
      if (!answer.ok) throw new Error(`Slack answered ${answer.status}`);
    } catch (error) {
      // The address is a secret of its message, so nothing of the error is quoted.
      log?.warn('words for a person could not be sent to Slack', {
        error: error instanceof Error ? error.name : 'error',
      });
    }
  }
}

function readButton({ value }: Action): SlackButton {
  const button = SlackButton.safeParse(jsonOf(value ?? ''));
  if (button.success) return button.data;
  throw new CountersignError('USAGE', 'This button is of another release. Open the request instead.');
}

function kindOf(actionId: string): Kind | undefined {
  if (actionId === SLACK_ACTIONS.approve) return 'approve';
  return actionId === SLACK_ACTIONS.reject ? 'reject' : undefined;
}

function decisionIdOf(
  { user, response_url: url }: SlackPress,
  { action_id: id, action_ts: at, value }: Action,
): string {
  const hash = createHash('sha256').update(JSON.stringify([user.id, url, id, at, value]));
  return `slack-${hash.digest('hex').slice(0, 40)}`;
}

const WORDS: Readonly<Record<DecisionAck['status'], string>> = {
  approved: 'Your approval counts. The call goes on.',
  counted: 'Your approval counts. More people must agree.',
  rejected: 'Your rejection counts. The call does not run.',
  withdrawn: 'Your approval is taken back.',
  extended: 'The deadline is later now.',
  answered: 'Your answer counts.',
  edited: 'Your approval counts, with other arguments.',
};

/** A run that did not answer may have taken the decision all the same. */
function refusalWords(error: CountersignError): string {
  const { code } = error;
  if (isUncertain(error))
    return `Nobody knows yet whether your answer counts (${code}). Open the request to see, or press again.`;
  return `Nothing was changed (${code}): ${detailOf(error)}`;
}

function valuesOf({ type, elements }: Fields): readonly unknown[] {
  if (type !== 'actions' || !Array.isArray(elements)) return [];
  return elements.map((element: unknown) => isFields(element) && element['value']);
}

/** Slack's three characters of control: nothing in the words becomes a mention or a link. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
