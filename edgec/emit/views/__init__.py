"""Views: what a template sees of a kernel, one kind a schedule."""

from edgec.emit.views.attention import AttentionView
from edgec.emit.views.base import View
from edgec.emit.views.chain import ChainView
from edgec.emit.views.contract import ContractView
from edgec.emit.views.few_queries import FewQueriesView
from edgec.emit.views.halo_fill import HaloFillView
from edgec.emit.views.map import MapView
from edgec.emit.views.matrix_unit import FewOrManyRowsView
from edgec.emit.views.procedure import ProcedureView
from edgec.emit.views.row import RowView
from edgec.emit.views.rows import RowsView
from edgec.emit.views.sparse import SparseView
from edgec.emit.views.sweep import SweepView
from edgec.emit.views.transpose import TransposeView
from edgec.emit.views.window import WindowView
from edgec.emit.views.winograd import WinogradView

VIEWS: dict[str, type[View]] = {
    "attention": AttentionView,
    "few_queries": FewQueriesView,
    "halo_fill": HaloFillView,
    "chain": ChainView,
    "contract": ContractView,
    "few_bits": FewOrManyRowsView,
    "map": MapView,
    "procedure": ProcedureView,
    "row": RowView,
    "rows": RowsView,
    "sparse": SparseView,
    "sweep": SweepView,
    "transpose": TransposeView,
    "window": WindowView,
    "winograd": WinogradView,
}

__all__ = ["VIEWS", "View"]
