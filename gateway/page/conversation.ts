/** The conversation of a run in a page: words of people, of the model and of tools, all of them foreign. */
import type { JsonValue } from '../../contracts/schemas/json.ts';
import { foreign, foreignBlock, rawJson, tree } from './kit/faithful.ts';
import { markup, type Shown } from './kit/markup.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';

export function conversationView(messages: readonly Message[]): Shown {
  if (messages.length === 0) return undefined;
  return markup`<section aria-labelledby="talk">
    <h2 id="talk">The conversation so far</h2>
    <p class="note">Words of people, of the model and of tools.</p>
    <ol class="talk">
      ${messages.map((message) => {
        switch (message.role) {
          case 'system':
            return markup`<li class="said system">
              <h3>Instructions</h3>
              <details class="fold">
                <summary>Show</summary>
                ${foreignBlock(message.text)}
              </details>
            </li>`;
          case 'user':
            return markup`<li class="said user">
              <h3>${message.from === undefined ? 'Task' : foreign(message.from)}</h3>
              ${foreignBlock(message.text)}
            </li>`;
          case 'assistant':
            return markup`<li class="said model">
              <h3>Model</h3>
              ${message.parts.map((part) =>
                part.type === 'call'
                  ? markup`<details class="fold call">
                      <summary>calls ${foreign(part.name)} <span class="note">${part.callId}</span></summary>
                      ${tree(part.arguments)}
                    </details>`
                  : part.type === 'text'
                    ? foreignBlock(part.text)
                    : markup`<details class="fold">
                        <summary>Reasoning</summary>
                        ${foreignBlock(part.text)}
                      </details>`,
              )}
            </li>`;
          case 'tool':
            return markup`<li class="said tools">
              <h3>Tools</h3>
              ${message.results.map(
                ({ callId, outcome }) =>
                  markup`<details class="fold">
                    <summary><span class="outcome ${outcome.kind}">${outcome.kind}</span> ${callId}</summary>
                    ${rawJson(JSON.parse(JSON.stringify(outcome)) as JsonValue)}
                  </details>`,
              )}
            </li>`;
        }
      })}
    </ol>
  </section>`;
}
