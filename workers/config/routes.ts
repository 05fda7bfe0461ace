/** Finds where a policy names channels of messages, and where it names one that there is not. It loads no channel. */
import type { Config } from '../../contracts/schemas/config.ts';
import type { NotifyRoute } from '../../contracts/schemas/notify.ts';
import { pathText } from '../../contracts/schemas/parse.ts';

/** A place where a policy names a channel. */
interface Route {
  readonly channel: string;
  readonly path: string;
}

/** Returns a route to nowhere: it would tell nobody, and no one would miss it. @param channels names of those there are */
export function routeToNowhere(policy: Config['policy'], channels: readonly string[]): Route | undefined {
  return routesOf(policy).find(({ channel }) => !channels.includes(channel));
}

function routesOf(policy: Config['policy']): readonly Route[] {
  const at = (path: readonly PropertyKey[], routes: NotifyRoute[] = []) =>
    routes.map(({ channel }, index) => ({ channel, path: pathText([...path, 'notify', index, 'channel']) }));
  return [
    ...at(['policy'], policy.notify),
    ...(policy.rules ?? []).flatMap(({ notify }, index) => at(['policy', 'rules', index], notify)),
  ];
}
