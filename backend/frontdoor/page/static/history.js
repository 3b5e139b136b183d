// What the server told in the last minutes.

const kept = 130; // seconds

export class History {
  list = [];

  /** Takes a status in. One of another server, or after a restart, begins anew. */
  add(status) {
    const last = this.last();
    if (last && (last.started_ms !== status.started_ms || last.now_ms > status.now_ms || last.models.length !== status.models.length)) this.list = [];
    this.list.push(status);
    while (this.list[0].now_ms < status.now_ms - 1000 * kept) this.list.shift();
  }

  last() {
    return this.list[this.list.length - 1];
  }

  /** The status of about so many seconds before the one at an index, or the next older one. */
  before(index, seconds) {
    const then = this.list[index].now_ms - 1000 * seconds;
    let i = index;
    while (i > 0 && this.list[i].now_ms > then) i--;
    return this.list[i];
  }

  /** How much a figure grew in the last seconds, a second in which answers were under way: pauses say nothing of how fast models write. */
  speed(seconds, of) {
    const { grown } = this.growth(seconds, of), live = this.growth(seconds, (s) => s.live_s).grown;
    return live > 0 ? grown / live : 0;
  }

  /** How much a figure grew in the last seconds, and what that is a second. */
  growth(seconds, of, index = this.list.length - 1) {
    const now = this.list[index], then = this.before(index, seconds);
    const grown = of(now) - of(then);
    return { grown, perSecond: (1000 * grown) / (now.now_ms - then.now_ms) };
  }
}
