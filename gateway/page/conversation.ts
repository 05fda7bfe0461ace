/**
 * The conversation of a run in a page: words of people, of the model and of tools, all of them foreign.
 *
 * 1. A page holds so much of it, newest first. What has no room there has a page of its own.
 */
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { alsoAsJson, foreign, foreignBlock, foreignName, rawJson, tree } from './kit/faithful.ts';
import { type Html, markup, type Shown } from './kit/markup.ts';
import type { AssistantPart, CallResult, Message } from '../../contracts/schemas/transcript.ts';
import type { Placed } from './kit/port.ts';

/** Characters, as JSON, that one page shows. */
const MOST_SHOWN = 65_536;

type Words = Extract<Message, { readonly text: string }>;

interface Sent {
  readonly callId: string;
  readonly sentBy: string;
  readonly arguments: JsonObject;
}

type Part = Words | AssistantPart | CallResult | Sent;

interface PlacedPart {
  readonly part: Part;
  /** Its place in the page of the run: `12/0`. */
  readonly place: string;
}

export function conversationView(messages: readonly Placed[], runId: string): Shown {
  if (messages.length === 0) return undefined;
  const parts = messages.map((placed) => partsOf(placed));
  let room = MOST_SHOWN;
  const shown = new Set(
    parts
      .flat()
      .toReversed()
      .filter(({ part }) => {
        const size = sizeOf(part);
        if (size > room) return false;
        room -= size;
        return true;
      }),
  );
  return markup`<section aria-labelledby="talk">
    <h2 id="talk">The conversation so far</h2>
    <p class="note">Words of people, of the model and of tools.</p>
    <ol class="talk">
      ${messages.map(
        ({ message }, index) =>
          markup`<li class="said ${CLASSES[message.role]}">
            <h3>${speakerOf(message)}</h3>
            ${parts[index]?.map((placed) => (shown.has(placed) ? foldedPart(placed.part) : linkTo(placed, runId)))}
          </li>`,
      )}
    </ol>
  </section>`;
}

const CLASSES = { system: 'system', user: 'user', assistant: 'model', tool: 'tools' } as const;

const SPEAKERS = { system: 'Instructions', user: 'Task', assistant: 'Model', tool: 'Tools' } as const;

function speakerOf(message: Message): Shown {
  return message.role === 'user' && message.from !== undefined ? foreign(message.from) : SPEAKERS[message.role];
}

function partsOf({ at, message }: Placed): readonly PlacedPart[] {
  if (message.role === 'tool')
    return message.results.flatMap((part, index) => {
      const { callId, edited } = part;
      const place = `${at}/${index}`;
      const sent = edited && { callId, sentBy: edited.by, arguments: edited.arguments };
      return [...(sent === undefined ? [] : [{ part: sent, place: `${place}-sent` }]), { part, place }];
    });
  const parts: readonly Part[] = message.role === 'assistant' ? message.parts : [message];
  return parts.map((part, index) => ({ part, place: `${at}/${index}` }));
}

function shownOf(part: Part): string | JsonObject {
  // Sound: an outcome comes from JSON.
  if ('outcome' in part) return part.outcome as unknown as JsonObject;
  return 'arguments' in part ? part.arguments : part.text;
}

function sizeOf(part: Part): number {
  return JSON.stringify(shownOf(part)).length;
}

function foldedPart(part: Part): Html {
  const fold = (summary: Shown): Html =>
    markup`<details class="fold"><summary>${summary}</summary>${wholePart(part)}</details>`;
  if ('outcome' in part || 'sentBy' in part) return fold(nameOf(part));
  if ('type' in part) return part.type === 'text' ? foreignBlock(part.text) : fold(nameOf(part));
  return part.role === 'system' ? fold('Show') : foreignBlock(part.text);
}

function nameOf(part: Part): Html {
  if ('outcome' in part)
    return markup`<span class="outcome ${part.outcome.kind}">${part.outcome.kind}</span> ${part.callId}`;
  if ('sentBy' in part)
    return markup`sent as changed by ${foreignName(part.sentBy)} <span class="note">${part.callId}</span>`;
  if ('type' in part && part.type === 'call')
    return markup`calls ${foreignName(part.name)} <span class="note">${part.callId}</span>`;
  return 'type' in part && part.type === 'reasoning' ? markup`Reasoning` : markup`Words`;
}

function linkTo({ part, place }: PlacedPart, runId: string): Html {
  const size = sizeOf(part).toLocaleString('en');
  return markup`<p><a class="button small" href="/runs/${encodeURIComponent(runId)}/messages/${place}">${nameOf(part)}</a> <span class="note">${size} characters, on a page of its own</span></p>`;
}

function wholePart(part: Part): Html {
  const shown = shownOf(part);
  if (typeof shown === 'string') return foreignBlock(shown);
  return 'outcome' in part ? rawJson(shown) : tree(shown);
}

export function partView(messages: readonly Placed[], runId: string, place: string): Html | undefined {
  const found = messages.flatMap((placed) => partsOf(placed)).find((each) => each.place === place);
  if (found === undefined) return undefined;
  const { part } = found;
  return markup`<div class="head">
      <p class="crumbs"><a href="/runs">Runs</a> / <a href="/runs/${encodeURIComponent(runId)}">${foreign(runId)}</a></p>
      <h1>${nameOf(part)}</h1>
    </div>
    <section class="card">
      ${'type' in part && part.type === 'call' && markup`<p class="note">The model calls ${foreign(part.name)}.</p>`}
      ${wholePart(part)}
      ${'arguments' in part && alsoAsJson(part.arguments, 'As JSON they would be too large to stand here twice.')}
    </section>`;
}
