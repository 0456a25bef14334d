"""The way out of a sandbox: a filtering HTTP proxy, for commands that may reach some hosts.

Only code that runs such a command imports this: it brings asyncio with it.
"""

from placet.sandbox.proxy.proxy import Failure as Failure
from placet.sandbox.proxy.proxy import Proxy as Proxy
from placet.sandbox.proxy.told import ProxyLimits as ProxyLimits
from placet.sandbox.proxy.told import Told as Told
