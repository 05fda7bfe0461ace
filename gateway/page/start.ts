/** The page on which a person starts a run of a configured agent. */
import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { CountersignError } from '../../contracts/errors.ts';
import { Identifier } from '../../contracts/schemas/json.ts';
import { codedOf, detailOf } from '../http/problem.ts';
import { foreign, foreignList } from './kit/faithful.ts';
import { csrf, hidden, pageText, trouble, type Typed } from './kit/layout.ts';
import { type Html, markup } from './kit/markup.ts';
import { formOf, pagesOf, type PageOptions, wordsIn } from './kit/page.ts';
import type { AgentOffer, Viewer } from './kit/port.ts';

export function registerStartPage(app: FastifyInstance, options: PageOptions): void {
  const { source } = options;
  const pages = pagesOf(app, options);
  pages.get<object, { agent?: string }>('/start', async ({ query: { agent } }, viewer) =>
    startPage(source.agents, viewer, agent === undefined ? {} : { agent }),
  );
  pages.post('/start', async ({ body }, viewer, reply) => {
    const form = formOf(body);
    const [agent, input, key] = ['agent', 'input', 'key'].map((name) => wordsIn(form, name));
    try {
      if (!Identifier.safeParse(key).success)
        throw new CountersignError('SPEC_INVALID', 'The form has lost its key. Nothing was started; send it again.', {
          path: 'key',
        });
      const runId = await source.start(viewer, agent ?? '', input ?? '', key ?? '');
      return await reply.redirect(`/runs/${encodeURIComponent(runId)}`, 303);
    } catch (error) {
      const told = codedOf(error);
      void reply.code(told.traits.httpStatus);
      // The form keeps what was typed, and gets a new key: the old one belongs to another run, or can start none.
      const isUsed = told.code === 'RUN_ID_CONFLICT' || told.facts.path === 'key';
      if (isUsed) form.delete('key');
      return startPage(source.agents, viewer, Object.fromEntries(form), told);
    }
  });
}

function startPage(agents: readonly AgentOffer[], viewer: Viewer, typed: Typed, error?: CountersignError): string {
  const view = startView(agents, viewer, typed);
  const told = error !== undefined && refusedView(error);
  return pageText({ title: 'Start a run', viewer, at: 'start', main: markup`${told}${view}` });
}

/** Somebody who went back in the browser and wrote something else sees the run that this form has started. */
function refusedView(error: CountersignError): Html {
  const { runId } = error.facts;
  if (error.code !== 'RUN_ID_CONFLICT' || typeof runId !== 'string')
    return trouble('Nothing was started', detailOf(error), error.code);
  return markup`<section class="banner error" role="alert">
    <h2>Nothing was started</h2>
    <p>
      This form has started <a href="/runs/${encodeURIComponent(runId)}">a run</a> before, with something else to do.
      Send it again to start another one.
    </p>
    <p class="code">${error.code}</p>
  </section>`;
}

function startView(agents: readonly AgentOffer[], viewer: Viewer, typed: Typed): Html {
  if (viewer.places?.has('start') !== true)
    return markup`<section class="empty">
      <h1>Nothing to start here</h1>
      <p>
        ${agents.length === 0 ? 'The gateway offers no agents: an operator names them in gateway.agents.' : 'You may not start runs: an operator names who may in gateway.may.start.'}
      </p>
      <p><a class="button" href="/runs">See the runs</a></p>
    </section>`;
  const chosen = agents.find(({ name }) => name === typed['agent']) ?? (agents.length === 1 ? agents[0] : undefined);
  return markup`<div class="head"><h1>Start a run</h1></div>
    <form method="post" action="/start" class="card narrow">
      ${csrf(viewer)}${hidden('key', typed['key'] ?? randomUUID())}
      <fieldset class="choices">
        <legend>Agent</legend>
        ${agents.map((agent) => agentView(agent, agent === chosen))}
      </fieldset>
      <label>What it is to do <textarea name="input" rows="8" required maxlength="131072">
${typed['input'] ?? ''}</textarea></label>
      <p class="note">The run is started in your name, ${foreign(viewer.id)}. Its calls are judged by policy, and you see all of it.</p>
      <div class="actions"><button class="button primary">Start</button></div>
    </form>`;
}

function agentView({ name, title, description, model, servers }: AgentOffer, isChosen: boolean): Html {
  const tools = servers.length > 0 && [' with ', foreignList(servers)];
  return markup`<label class="line option"><input type="radio" name="agent" value="${name}" required ${isChosen && markup` checked`} />
    <span><strong>${foreign(title)}</strong>${description !== undefined && markup`<span class="note">${foreign(description)}</span>`}<span class="note">${foreign(model)}${tools}</span></span></label>`;
}
